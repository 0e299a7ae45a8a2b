"""The reward of a run whose rollout has it already: that of the world in which its episodes were."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.advantages.objectives import weighted_sum
from rlx.errors import ConfigError, between
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


def of_parts(*, weights: Mapping[str, float]) -> Annotate:
  """Σ w x over what the world tells of an episode: a composite reward in the place of the world's own.

  The rewards of turns (`token_rewards`) stay: it is for baselines that compare episodes.

  Args:
    weights: name in the `info` of the world, such as `success` -> w.
  Raises:
    ConfigError: the world tells no such thing.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    told = {name.partition('/')[2] for name in batch if name.startswith('episode/')}
    if unknown := sorted(set(weights) - told):
      raise ConfigError(f'reward.weights has {unknown}; this world tells of {sorted(told)}')
    parts = jnp.stack([batch[f'episode/{name}'] for name in weights], axis=1)
    return {**batch, 'rewards': weighted_sum(parts, weights=tuple(weights.values()))}

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
