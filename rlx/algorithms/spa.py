"""SPA: an estimator learns what each step has added to the outcome, from outcomes alone.

    L = ( Σ_k c_k - R )²,    c_k = head(hidden state behind the action of step k)

The contributions of an episode are made to sum to its outcome R; how they are shared out among the steps is
left to what the estimator can tell of each from what stands before it. `rewards.of_progress` pays a policy by
them. In the paper the estimator learns before the policy does, from episodes of an imitated one; here it may
also be a learner beside it.

Source: SPA-RL, https://arxiv.org/abs/2505.20732. There a small MLP is the head; here it is linear on the
hidden state.
"""

import jax.numpy as jnp

from rlx.engine.speaker import Critic
from rlx.rewards.of_progress import contributions
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def spa(rollout: Rollout, reward: Annotate, progress: Critic) -> Algorithm:
  """Trains `models['progress']` on the outcomes of episodes.

  Metric: `progress/error`, the mean distance of a sum from its outcome, before the update; of new episodes
  that is of what was not learnt from.

  Args:
    rollout: yields rows with `turns`, an episode each.
    reward: adds their outcomes, `rewards` [B], such as `of_world`.
    progress: the estimator, read behind each action.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    counts = scored_rows(batch)
    weights = counts * (counts.shape[0] / jnp.maximum(counts.sum(), 1))
    return {**batch, 'outcomes': jnp.where(counts, batch['rewards'], 0), 'weights': weights}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    error = contributions(progress.apply, models['progress'], batch).sum(axis=1) - batch['outcomes']
    value = jnp.mean(batch['weights'] * jnp.square(error))
    return value, {'loss/progress': value, 'progress/error': jnp.mean(batch['weights'] * jnp.abs(error))}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
