"""Bits that are to be made like other bits, one flip at a time: the smallest problem with goals.

An observation is [bits, goal], n numbers each, 0 or 1. Action i flips bit i. A step pays 0 where it arrives,
which ends the episode, and -1 elsewhere. Whoever waits to arrive by chance waits for one of 2^n states; in
hindsight (`relabel`, `replay.hindsight_replay`) every episode has arrived somewhere.

Source: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495, section 3.1, where nothing ends an
episode but the clock, and an episode may begin in its goal.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Discrete, Environment, Timestep, timestep, with_time_limit
from rlx.types import Batch, Key

MAX_BITS = 30  # goals are drawn as int32


def bit_flip(*, num_bits: int, max_steps: int) -> Environment:
  """The problem above, from any bits to any others.

  Behind a score are -max_steps, what whoever never arrives gets, and the shortest way.

  Args:
    num_bits: n.
    max_steps: after which an episode is cut off; n are always enough.
  Raises:
    ValueError: `num_bits` is less than 2 or more than 30, or there is no time for any goal.
  """
  if not 2 <= num_bits <= MAX_BITS or max_steps < num_bits:
    raise ValueError(
        f'num_bits={num_bits}, max_steps={max_steps}: from 2 to {MAX_BITS} bits, and a step for each'
    )

  def reset(key: Key):
    bits_key, change_key = jax.random.split(key)
    bits = jax.random.bernoulli(bits_key, shape=(num_bits,))
    number = jax.random.randint(change_key, (), 1, 2**num_bits)
    change = (number >> jnp.arange(num_bits)) % 2 == 1
    state = jnp.concatenate([bits, bits ^ change]).astype(jnp.float32)
    return state, state

  def step(state: jax.Array, action: jax.Array, key: Key) -> Timestep:
    del key
    state = state.at[action].set(1 - state[action])
    arrived = reached(state[:num_bits], state[num_bits:])
    return timestep(state, state, arrived - 1.0, terminated=arrived, success=arrived)

  shortest = num_bits / 2 / (1 - 2.0**-num_bits)  # flips, in the mean
  env = Environment(
      reset=reset, step=step, observation_shape=(2 * num_bits,), actions=Discrete(num_bits),
      random_return=-float(max_steps), expert_return=1 - shortest, draw=_draw,
  )
  return with_time_limit(env, max_steps)


def reached(bits: jax.Array, goals: jax.Array) -> jax.Array:
  """[...] bool, True where bits [..., n] are those of the goals [..., n]."""
  return (bits == goals).all(axis=-1)


def relabel(batch: Batch, goals: jax.Array) -> Batch:
  """The batch as it would have been with other goals, which changes what is paid and where it ends.

  Args:
    batch: transitions with `observations, next_observations` [..., 2 n] and any other columns.
    goals: [..., n].
  Returns:
    The batch with those goals in both observations, `rewards` 0 and `terminated` where a transition arrives.
    `truncated` is False there, and is otherwise as before.
  """
  num_bits = goals.shape[-1]
  arrived = reached(batch['next_observations'][..., :num_bits], goals)
  with_goals = lambda seen: jnp.concatenate([seen[..., :num_bits], goals], axis=-1)
  return {
      **batch,
      'observations': with_goals(batch['observations']),
      'next_observations': with_goals(batch['next_observations']),
      'rewards': arrived - 1.0,
      'terminated': arrived,
      'truncated': batch['truncated'] & ~arrived,
  }


def _draw(state) -> np.ndarray:
  """The bits in a row, and below them the goal."""
  rows = np.asarray(state).reshape(2, -1, 1)
  return drawing.cells(np.where(rows > 0.5, drawing.INK, drawing.PALE))
