"""A game of two in one body: Explore and Control take turns in an environment, and surprise is what counts.

In a turn of Control each observation is paid its surprise,

    r_t = -1/D log p_θ(o_{t+1}),   p_θ(o) = Π_d θ_d^{o_d} (1 - θ_d)^{1 - o_d},   θ_d = (n_d + 1) / (n + 2)

with n_d the ones among the n observations of this turn so far, and nothing in a turn of Explore.

Source: Fickinger et al., 2021, https://arxiv.org/abs/2107.07394. The density of a turn and the surprise of
Control's observations alone are as in the authors' code; 1/D and a density for observations of 0 and 1 alone
are our choice.
"""

from collections.abc import Callable
import dataclasses
import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment, Timestep, draw_inner
from rlx.types import Key


def taking_turns(
    *, env: Callable[[], Environment], explore_steps: int, control_steps: int, rounds: int
) -> Environment:
  """The game: observations [o, θ, share of the round that is over, 1 if Control acts], paid as above.

  Without turns of Explore it is for a single policy that seeks nothing but surprise. A score of 0 is a world
  without surprise and 100 one of random bits.

  Args:
    env: makes the environment, whose observations [D] are 0 or 1; its rewards are not looked at.
    explore_steps: of a turn of Explore, with which a round begins; 0 for none.
    control_steps: of a turn of Control.
    rounds: of both, after which the game is over.
  Raises:
    ValueError: a number is too small.
  """
  if explore_steps < 0 or min(control_steps, rounds) < 1:
    raise ValueError(
        f'explore_steps={explore_steps}, control_steps={control_steps}, rounds={rounds}: at least 0, 1 and 1'
    )
  inner, length = env(), explore_steps + control_steps
  (size,) = inner.observation_shape

  def observe(seen, ones, num, clock):
    now = clock % length
    rest = jnp.stack([now / length, (now >= explore_steps).astype(jnp.float32)])
    return jnp.concatenate([seen, (ones + 1) / (num + 2), rest])

  def reset(key: Key):
    state, seen = inner.reset(key)
    known = (jnp.zeros(size), jnp.zeros(1), jnp.int32(0))
    return (state, *known), observe(seen, *known)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    state, ones, num, clock = state
    new = inner.step(state, action, key)
    control = clock % length >= explore_steps
    reward = jnp.where(control, surprise(new.observation, ones, num), 0)
    clock = clock + 1
    stays = clock % length != 0  # what a turn has seen is forgotten at its end
    ones = jnp.where(stays, ones + control * new.observation, 0)
    num = jnp.where(stays, num + control, 0)
    over = new.terminated | (clock >= rounds * length)
    return new._replace(
        state=(new.state, ones, num, clock), observation=observe(new.observation, ones, num, clock),
        reward=reward, terminated=over, truncated=new.truncated & ~over,
    )

  return dataclasses.replace(
      inner, reset=reset, step=step, observation_shape=(2 * size + 2,), random_return=0.0,
      expert_return=rounds * control_steps * math.log(2), draw=draw_inner(inner),
  )


def controls(observations: jax.Array) -> jax.Array:
  """[...] bool, True where it is Control's turn, in observations [..., 2 D + 2] of `taking_turns`."""
  return observations[..., -1] > 0.5


def surprise(observation: jax.Array, ones: jax.Array, num: jax.Array) -> jax.Array:
  """-1/D log p_θ(o), [] in nats, after `num` observations of which `ones` [D] were 1."""
  theta = (ones + 1) / (num + 2)
  return -jnp.log(jnp.where(observation > 0.5, theta, 1 - theta)).mean()
