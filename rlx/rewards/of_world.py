"""Rewards of a run whose rollout has them already: those of the world in which its episodes were."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.advantages.objectives import weighted_sum
from rlx.envs.turns import SUCCESS
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


def right_with_fewer(*, of: str, weight: float) -> Annotate:
  """Orders episodes: right before wrong, and of right ones those with less of what the world counts.

      R = solved · (1 - weight · n / (1 + n))

  With any weight above 0 that is the order of pairs (right, wrong) and (fewer, more); with 0 it is the first
  alone. Wrong ones are all alike, however short. Rows without a reward stay so.

  Args:
    of: what is counted, as the world tells it in `Reply.info`; not below 0.
    weight: in [0, 1].
  Raises:
    ConfigError: the rows are of no episodes, or of a world that counts nothing of this name.
  Source: WebThinker, https://arxiv.org/abs/2504.21776: correct over incorrect, then the fewer calls of tools;
    its third criterion, the shorter thoughts, is left out.
  """
  between(0, 1, weight=weight)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    if missing := {SUCCESS, of} - (told := _told(batch)):
      raise ConfigError(
          f"reward 'right_with_fewer': no {sorted(missing)} in these rows; they tell {sorted(told)}"
      )
    count = batch[f'episode/{of}']
    total = batch[f'episode/{SUCCESS}'] * (1 - weight * count / (1 + count))
    return {**batch, 'rewards': jnp.where(jnp.isnan(batch['rewards']), jnp.nan, total)}

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
    if unknown := sorted(set(weights) - (told := _told(batch))):
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


def _told(batch: Batch) -> set[str]:
  """What the world has told of the episodes of these rows."""
  return {name.partition('/')[2] for name in batch if name.startswith('episode/')}
