"""Adversarial Surprise: a policy goes where the next one will be surprised, and that one calms things down.

Explore and Control take turns in one body. In a turn of Control each observation is paid its surprise,

    r_t = -1/D log p_θ(o_{t+1}),   p_θ(o) = Π_d θ_d^{o_d} (1 - θ_d)^{1 - o_d},   θ_d = (n_d + 1) / (n + 2)

with n_d the ones among the n observations of this turn so far, and nothing in a turn of Explore. Explore
wants the sum to be large and Control wants it small. Noise that cannot be helped is worth nothing to Explore
as soon as Control has learnt to turn it off or to leave it, so that it moves on to what is not mastered yet.

    A_explore = A,   A_control = -A,   A = GAE(r, V)

It is PPO on `taking_turns`, an environment that shows θ and the clock behind the observation, with `players`,
two policies in one. What PPO differs in is the sign of the advantages, which are normalised for each player.

Source: Fickinger et al., 2021, https://arxiv.org/abs/2107.07394. The density of a turn and the surprise of
Control's observations alone are as in the authors' code. That one value serves both players, whose game is
of zero sum, is our choice, as are 1/D and a density for observations of 0 and 1 alone.
"""

from collections.abc import Callable
import dataclasses
import math

import jax
import jax.numpy as jnp

from rlx.advantages import temporal
from rlx.algorithms.control.ppo import ppo
from rlx.envs.control.environment import Environment, Timestep
from rlx.models import networks
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_EPS = 1e-8  # of the standard deviation of advantages


def adversarial_surprise(
    rollout: Rollout,
    policy: Policy,
    value: Network,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    discount: float,
    lambda_: float,
) -> Algorithm:
  """Adversarial Surprise; trains `models['policy']`, both players, and `models['value']`.

  Args:
    rollout: yields [B, T] stretches of time of `taking_turns`, with `sampler_logprobs`.
    policy: `players`.
    value: V(s), the surprise to come.
    clip_low: as are the others, of `ppo`.
    clip_high: see there.
    entropy_coef: see there; of both players.
    value_coef: see there.
    value_clip: see there.
    discount: see there.
    lambda_: see there.
  """
  base = ppo(
      rollout, policy, value, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, discount=discount, lambda_=lambda_,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    values = value.apply(models['value'], batch['observations'])
    next_values = value.apply(models['value'], batch['next_observations'])
    advantages = temporal.gae_episodes(
        batch['rewards'], values, next_values, batch['terminated'], batch['truncated'], discount=discount,
        lambda_=lambda_,
    )
    batch = {
        **batch, 'values': values, 'returns': advantages + values,
        'advantages': opposed(advantages, controls(batch['observations'])),
    }
    return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)

  return dataclasses.replace(base, advantage=advantage)


def opposed(advantages: jax.Array, control: jax.Array) -> jax.Array:
  """A of Explore's steps and -A of Control's, each normalised among its own.

  Args:
    advantages: [B, T] of the surprise.
    control: [B, T] bool, True where Control acted.
  """
  signed = jnp.where(control, -advantages, advantages)

  def normalised(mine):
    mean = lambda x: jnp.where(mine, x, 0).sum() / jnp.maximum(mine.sum(), 1)
    centred = signed - mean(signed)
    return centred / (jnp.sqrt(mean(jnp.square(centred))) + _EPS)

  return jnp.where(control, normalised(control), normalised(~control))


def controls(observations: jax.Array) -> jax.Array:
  """[...] bool, True where it is Control's turn, in observations [..., 2 D + 2] of `taking_turns`."""
  return observations[..., -1] > 0.5


def surprise(observation: jax.Array, ones: jax.Array, num: jax.Array) -> jax.Array:
  """-1/D log p_θ(o), [] in nats, after `num` observations of which `ones` [D] were 1."""
  theta = (ones + 1) / (num + 2)
  return -jnp.log(jnp.where(observation > 0.5, theta, 1 - theta)).mean()


def taking_turns(
    *, env: Callable[[], Environment], explore_steps: int, control_steps: int, rounds: int
) -> Environment:
  """The game: observations [o, θ, share of the round that is over, 1 if Control acts], paid as above.

  Without turns of Explore it is for a single policy, and `ppo` on it seeks nothing but surprise. A score of 0
  is a world without surprise and 100 one of random bits.

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
      expert_return=rounds * control_steps * math.log(2),
  )


def players(env: Environment, *, hidden: tuple[int, ...], activation: str) -> Policy:
  """Two `categorical` policies, of which the observation says whose turn it is.

  Args:
    env: `taking_turns`, of an environment with discrete actions.
    hidden: units of each hidden layer, of either.
    activation: between layers.
  """
  one = networks.categorical(env, hidden=hidden, activation=activation)

  def init(key: Key):
    explore_key, control_key = jax.random.split(key)
    return {'explore': one.init(explore_key), 'control': one.init(control_key)}

  def both(function):
    def of_turn(params, observations, *rest):
      of = [function(params[name], observations, *rest) for name in ('explore', 'control')]
      return jax.tree.map(lambda x, y: jnp.where(controls(observations), y, x), *of)

    return of_turn

  return Policy(init=init, sample=both(one.sample), mode=both(one.mode), score=both(one.score))
