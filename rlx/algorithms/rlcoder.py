"""RLCoder: a retriever learns by the policy gradient what its generator, which is frozen, can use.

    L = mean over rows of  -min(ρ A, clip(ρ, 1 - ε_low, 1 + ε_high) A) - c H,   ρ = π(c | q) / π_old(c | q)

π is the softmax of the retriever's scores over the candidates of a file, an empty one among them: to choose
it is to stop. A are the rewards of the choices for a file beside each other. No label says which candidate is
right.

Source: RLCoder, https://arxiv.org/abs/2407.19487. There all candidates that are retrieved for a file are
scored, and the best by perplexity is paid; here choices are drawn, and paid by how far perplexity falls.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.losses import policy
from rlx.models.networks import Network
from rlx.names import fill
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def rlcoder(
    rollout: Rollout, reward: Annotate, retriever: Network, *, baseline: Callable, clip_low: float,
    clip_high: float, entropy_coef: float,
) -> Algorithm:
  """Trains `models['retriever']` on what its choices are worth.

  Args:
    rollout: yields rows with `queries`, `candidates`, `choices` and `choice_logprobs`, as
      `snippets.retrievals`.
    reward: adds `rewards` [B], such as `by_perplexity.fall_of_perplexity`.
    retriever: scores candidates.
    baseline: gives advantages [B] of `rewards` and `groups` (`advantages/groups.py`).
    clip_low: ε_low.
    clip_high: ε_high.
    entropy_coef: c.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    scored = scored_rows(batch).astype(jnp.float32)
    weights = scored * scored.shape[0] / jnp.maximum(scored.sum(), 1)  # a mean over rows
    return {**batch, 'choice_advantages': fill(baseline, batch), 'weights': weights}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    scores = retriever.apply(models['retriever'], batch['queries'], batch['candidates'])
    chances = jax.nn.log_softmax(scores)
    logprobs = jnp.take_along_axis(chances, batch['choices'][:, None], axis=1)[:, 0]
    ratios = jnp.exp(logprobs - batch['choice_logprobs'])
    surrogate = policy.clipped(ratios, batch['choice_advantages'], clip_low=clip_low, clip_high=clip_high)
    entropy = -jnp.sum(jnp.exp(chances) * chances, axis=1)
    mean = lambda x: jnp.mean(batch['weights'] * x)
    total = mean(surrogate)
    return total - entropy_coef * mean(entropy), {'loss/policy': total, 'retriever/entropy': mean(entropy)}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
