"""A reward model learns from pairs: the chance that one answer is preferred is a logistic function.

    L = -mean over pairs of  log σ(r(chosen) - r(rejected))

Source: Bradley and Terry, 1952; Ouyang et al., 2022, https://arxiv.org/abs/2203.02155, equation 1.
"""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Judge
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def bradley_terry(rollout: Rollout, judge: Judge) -> Algorithm:
  """Trains `models['judge']` on pairs of answers.

  Args:
    rollout: yields a pair a row, as `rewards.of_learners.pairs` makes them; `weights` [B] say which count.
    judge: a reward model, such as `heads.reward_head`.
  """

  def read(models: Models, batch: Batch, which: str) -> jax.Array:
    rows = {name: batch[f'{which}_{name}'] for name in ('tokens', 'valid')}
    return judge.apply(models['judge'], rows)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    share = batch['weights'] * len(batch['weights']) / jnp.maximum(batch['weights'].sum(), 1)
    return {**batch, 'weights': share}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    margins = read(models, batch, 'chosen') - read(models, batch, 'rejected')
    mean = lambda x: jnp.mean(x * batch['weights'])
    value = mean(-jax.nn.log_sigmoid(margins))
    return value, {'loss/pairs': value, 'judge/right': mean((margins > 0).astype(jnp.float32))}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
