"""Gathering: rows are drawn and rewarded, memories take them in, and nothing is learnt.

For a stage that trains nothing (`trained = ()`): it fills a store, measures difficulty, labels or solves, and
the stage behind it takes the memories.
"""

import jax.numpy as jnp

from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def gather(rollout: Rollout, reward: Annotate) -> Algorithm:
  """The rows of a rollout, rewarded; what it remembers of them is all that stays.

  Args:
    rollout: any.
    reward: any.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del models, batch, key
    return jnp.float32(0), {}

  return Algorithm(rollout=rollout, reward=reward, loss=loss)
