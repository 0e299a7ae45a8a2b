"""A reward model learns verdicts on single answers: its numbers are the log-odds that an answer is right.

    L = mean over rows of  -log σ(r) where the answer is right, -log σ(-r) where it is wrong

Where comparisons tell an order alone (`bradley_terry`), these tell how sure to be, which is what a reward is
made of.

Source: a classifier's cross-entropy; as the training of a verifier, Cobbe et al., 2021,
https://arxiv.org/abs/2110.14168. One number at the end of an answer, where SWE-RM
(https://arxiv.org/abs/2512.21919) reads it off the chances of the words yes and no.
"""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Judge
from rlx.types import Algorithm, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def pointwise(rollout: Rollout, judge: Judge) -> Algorithm:
  """Trains `models['judge']` on verdicts.

  Args:
    rollout: yields rows with `preferred` [B], True where the answer is right; those whose `rewards` are NaN,
      where there are such, count for nothing.
    judge: a reward model, such as `heads.reward_head` or, as in PRIME, `heads.implicit_reward`.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    counts = scored_rows(batch) if 'rewards' in batch else jnp.ones_like(batch['preferred'])
    return {**batch, 'weights': counts / jnp.maximum(jnp.mean(counts, dtype=jnp.float32), 1 / len(counts))}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    odds, right = judge.apply(models['judge'], batch), batch['preferred']
    mean = lambda x: jnp.mean(x * batch['weights'])
    value = mean(jax.nn.softplus(jnp.where(right, -odds, odds)))
    return value, {
        'loss/verdicts': value, 'judge/right': mean((odds > 0) == right), 'judge/mean': mean(odds),
    }

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
