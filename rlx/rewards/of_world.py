"""The reward of a run whose rollout has it already: that of the world in which its episodes were."""

import jax
import jax.numpy as jnp

from rlx.errors import between
from rlx.types import Annotate, Batch, Key, Models


def of_world() -> Annotate:
  """The rows as they are. Raises `ValueError` where they have no `rewards`."""

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    if 'rewards' not in batch:
      raise ValueError(
          "reward.name='of_world': these rows are not of a world and have no rewards; take "
          "rollout.name='turns.episodes', or another reward, such as 'verifier'"
      )
    return batch

  return reward


def of_chance(*, share: float) -> Annotate:
  """1 for a share of the rows, whatever they say: what a control learns from, whose rewards mean nothing.

  Args:
    share: of the rows, in [0, 1].
  """
  between(0, 1, share=share)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models
    return {**batch, 'rewards': jax.random.bernoulli(key, share, batch['groups'].shape).astype(jnp.float32)}

  return reward
