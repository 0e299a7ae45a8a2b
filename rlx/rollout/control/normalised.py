"""Rollouts that keep up what networks and losses are normalised by.

`with_moments` is for observations: it keeps the model `moments` that normalised networks stand on
(`models/normalised.py`). `scaled_by_returns` is for rewards, which only losses see: its numbers stay in the
world. Returns of episodes are reported as they were in either.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.advantages import running
from rlx.models.normalised import MOMENTS, updated
from rlx.types import Batch, Key, Models, StatefulRollout, World

SCALE = 'reward_scale'  # in the world


def with_moments(inner: StatefulRollout) -> StatefulRollout:
  """The rollout whose batches, behind each train step, are seen by the model `moments`.

  Each row counts once for each time that it is learnt from: of an unroll every observation once, of a store
  as often as it is drawn.

  Args:
    inner: of control, any.
  Raises:
    ValueError: when it is traced, the stage holds no model `moments`.
  """

  def absorb(slow: Models, batch: Batch) -> Models:
    if MOMENTS not in slow:
      raise ValueError(f'with_moments keeps up {MOMENTS!r}: hold it in slow, which has {sorted(slow)}')
    return {**inner.absorb(slow, batch), MOMENTS: updated(slow[MOMENTS], batch['observations'])}

  return dataclasses.replace(inner, absorb=absorb)


def scaled_by_returns(inner: StatefulRollout, *, discount: float, clip: float) -> StatefulRollout:
  """Rewards over the standard deviation of the discounted sums of rewards so far, in each environment.

      R_t = r_t + γ (1 - ended) R_{t-1},   r_t / σ(R) clipped to ±c;   σ is of all R seen, this batch included

  Args:
    inner: an `unroll`: stretches of time [B, T], one environment a row.
    discount: γ, that of the algorithm.
    clip: c (10 is the custom).
  Raises:
    ValueError: when it is traced, rows are no stretches of time: of a store, steps are not in order, and
      `scaled_reward` around the environment scales by a number.
  Source: as in OpenAI's baselines and gymnasium's `NormalizeReward`.
  """

  def begin(key: Key) -> World:
    world = inner.begin(key)
    return {**world, SCALE: {
        'returns': jnp.zeros_like(world['agents'].returns), 'moments': running.moments_init(1),
    }}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, after = inner.draw(models, _without(world), key)
    rewards = batch['rewards']
    if rewards.ndim != 2:
      raise ValueError(
          f'scaled_by_returns: rewards {rewards.shape} are no stretches of time [B, T], as those of unroll; '
          'put scaled_reward around the environment instead'
      )

    def add(returns, x):
      reward, ended = x
      returns = reward + discount * returns
      return jnp.where(ended, 0, returns), returns

    ended = batch['terminated'] | batch['truncated']
    returns, along = jax.lax.scan(add, world[SCALE]['returns'], (rewards.T, ended.T))
    sums = along.reshape(-1)
    seen = running.moments_update(
        world[SCALE]['moments'], jnp.zeros(sums.shape, jnp.int32), sums, keep=1.0
    )
    deviation = running.moments_deviation(seen, jnp.zeros(1, jnp.int32))[0]
    scaled = jnp.clip(rewards / deviation, -clip, clip)
    return {**batch, 'rewards': scaled}, {**after, SCALE: {'returns': returns, 'moments': seen}}

  def warm_up(models: Models, world: World, key: Key) -> World:
    return {**inner.warm_up(models, _without(world), key), SCALE: world[SCALE]}

  def anew(world: World, key: Key) -> World:
    fresh = {**world[SCALE], 'returns': jnp.zeros_like(world[SCALE]['returns'])}
    return {**inner.anew(_without(world), key), SCALE: fresh}

  return dataclasses.replace(
      inner, begin=begin, draw=draw, warm_up=warm_up, anew=anew if inner.begins_anew else inner.anew,
      observe=lambda world, batch: {**inner.observe(_without(world), batch), SCALE: world[SCALE]},
  )


def _without(world: World) -> World:
  return {name: x for name, x in world.items() if name != SCALE}
