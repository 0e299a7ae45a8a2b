"""How hard each environment should be now, and which environments are worth asking.

Every environment (a generator of problems with a knob) has a level, a real number that rises where the
policy does better than a target and falls where it does worse. A set of them is active; one whose level has
not risen for long makes room for the one that has waited longest. State, `act` and `update` are pure, so a
state can be carried in `world`.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from rlx.types import Key


class Difficulty(NamedTuple):
  """What is known of E environments."""

  levels: jax.Array  # [E] float32
  best: jax.Array  # [E] float32, the highest level since the environment became active
  stalled: jax.Array  # [E] int32, updates in a row without a new best level
  active: jax.Array  # [E] bool
  left: jax.Array  # [E] int32, update at which the environment was replaced; negative before it was active
  updates: jax.Array  # [] int32


def init(num_envs: int, *, num_active: int, level: float) -> Difficulty:
  """The first `num_active` environments are active, all at one level.

  Raises:
    ValueError: there are fewer environments.
  """
  if not 1 <= num_active <= num_envs:
    raise ValueError(f'num_active={num_active} of {num_envs} environments; pass 1 to {num_envs}')
  levels = jnp.full(num_envs, level, jnp.float32)
  return Difficulty(
      levels=levels, best=levels, stalled=jnp.zeros(num_envs, jnp.int32),
      active=jnp.arange(num_envs) < num_active,
      left=jnp.arange(num_envs, dtype=jnp.int32) - num_envs, updates=jnp.int32(0),
  )


def act(state: Difficulty, key: Key, num: int, *, num_active: int) -> tuple[jax.Array, jax.Array]:
  """Environments and whole difficulties of `num` problems; active environments take turns.

  A level between two whole numbers is a mixture of the two.

  Args:
    state: `num_active` environments are active.
    key: who begins, and which of two difficulties.
    num: N.
    num_active: as in `init`.
  Returns:
    [N] int32 each.
  """
  begin_key, level_key = jax.random.split(key)
  turns = jnp.arange(num) + jax.random.randint(begin_key, (), 0, num_active)
  envs = jnp.nonzero(state.active, size=num_active)[0][turns % num_active].astype(jnp.int32)
  levels = state.levels[envs]
  up = jax.random.uniform(level_key, (num,)) < levels - jnp.floor(levels)
  return envs, (jnp.floor(levels) + up).astype(jnp.int32)


def update(
    state: Difficulty, envs: jax.Array, rewards: jax.Array, *, target: float, rate: float, low: float,
    high: float, min_rise: float, patience: int,
) -> Difficulty:
  """Moves levels towards the target, and replaces what has stalled.

      d_e <- clip(d_e + η (mean reward - τ), low, high)

  Args:
    state: before the batch.
    envs: [B] int32 environment of each row.
    rewards: [B] outcomes in [0, 1]; rows of NaN, which were not scored, are left out.
    target: τ, the success rate that is wanted.
    rate: η, levels by which certain success is above the target, over 1 - τ.
    low: the lowest level.
    high: the highest.
    min_rise: by so much a level has to pass its best to count as a new one; noise passes less.
    patience: updates without a new best level after which an environment is replaced, if another waits.
  Source: SCALER, https://arxiv.org/abs/2601.04809, read in summaries of the paper; the update of the level
    and the rule for stalling are our reading.
  """
  chex.assert_rank([envs, rewards], 1)
  num_envs = state.levels.shape[0]
  envs = jnp.where(jnp.isnan(rewards), num_envs, envs)  # beyond the last one nothing is taken in
  total = lambda x: jax.ops.segment_sum(x, envs, num_segments=num_envs)
  counts = total(jnp.ones(envs.shape, jnp.float32))
  accuracy = total(rewards.astype(jnp.float32)) / jnp.maximum(counts, 1)
  seen = counts > 0
  levels = jnp.where(seen, jnp.clip(state.levels + rate * (accuracy - target), low, high), state.levels)
  rose = levels >= state.best + min_rise
  best = jnp.where(rose, levels, state.best)
  stalled = jnp.where(seen, jnp.where(rose, 0, state.stalled + 1), state.stalled)
  tired = state.active & (stalled >= patience)
  rank = lambda mask: jnp.where(mask, jnp.cumsum(mask), num_envs + 1)  # 1, 2, .. among those of the mask
  leaves = rank(tired) <= num_envs - state.active.sum()
  order = jnp.argsort(jnp.where(state.active, jnp.iinfo(jnp.int32).max, state.left), stable=True)
  enters = jnp.zeros(num_envs, bool).at[order].set(jnp.arange(num_envs) < leaves.sum())
  return Difficulty(
      levels=levels, best=jnp.where(enters, levels, best), stalled=jnp.where(enters, 0, stalled),
      active=(state.active & ~leaves) | enters, left=jnp.where(leaves, state.updates, state.left),
      updates=state.updates + 1,
  )
