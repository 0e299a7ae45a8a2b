"""RMM: a reranker of memories learns by REINFORCE from which of them the answer cites.

    L = -mean over questions of  Σ_j (r_j - b) log π(m_j | q, m_1 .. m_{j-1})
    r_j = 1 if m_j is cited, else -1

π draws entries without replacement: it is the softmax of the reranker's scores over those that are not drawn
yet. b is the mean of r over the batch. Nobody says which memory was needed, nor whether the answer is right.

Source: Reflective Memory Management, https://arxiv.org/abs/2503.08026 (retrospective reflection; from the
abstract: the letters, the baseline and the rewards of 1 and -1 are our reading).
"""

import jax
import jax.numpy as jnp

from rlx.models.networks import Network
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def rmm(rollout: Rollout, reranker: Network) -> Algorithm:
  """Trains `models['reranker']` on what answers cite.

  Args:
    rollout: yields rows with `queries`, `candidates`, `choices` and `cited`, as `sessions.cited_entries`.
    reranker: scores entries.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    rewards = 2.0 * batch['cited'] - 1
    return {**batch, 'choice_advantages': rewards - rewards.mean()}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    scores = reranker.apply(models['reranker'], batch['queries'], batch['candidates'])
    logprobs = choice_logprobs(scores, batch['choices'])
    total = -jnp.mean(jnp.sum(batch['choice_advantages'] * logprobs, axis=1))
    chances = jax.nn.log_softmax(scores)
    entropy = -jnp.mean(jnp.sum(jnp.exp(chances) * chances, axis=1))
    return total, {'loss/policy': total, 'retriever/entropy': entropy}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)


def choice_logprobs(scores: jax.Array, choices: jax.Array) -> jax.Array:
  """[N, k] log-probs of choices without replacement, each given those before it (Plackett-Luce).

  Args:
    scores: [N, K].
    choices: [N, k] int32, different in a row.
  """
  chosen = jnp.take_along_axis(scores, choices, axis=1)
  taken = jax.nn.one_hot(choices, scores.shape[1], dtype=jnp.int32)
  before = (jnp.cumsum(taken, axis=1) - taken) > 0  # [N, k, K]
  left = jnp.where(before, -jnp.inf, scores[:, None])
  return chosen - jax.nn.logsumexp(left, axis=2)
