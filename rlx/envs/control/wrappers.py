"""Environments around others: what makes a simulated problem more like a real one, and what shows more of it.

Difficulties are functions from an environment to another. They can be stacked; the order counts:
`noisy_observations(delayed(env, steps=2), std=0.1)` adds noise to the actions under way as well,
`delayed(noisy_observations(...), ...)` does not. In a config `wrapped` puts one around another. The returns
behind scores stay those of the environment inside, so that a score says what the difficulty costs; only
`scaled_reward` scales them, too. `chunked` and `commanded` put behind the observation what a policy has to
know of its own plan, so that it stays a function of what it observes.
Source: the difficulties are those of Gao et al., 2025, https://arxiv.org/abs/2503.19267.
"""

from collections.abc import Callable
import dataclasses
import math

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Continuous, Environment, State, Timestep, draw_inner
from rlx.types import Key


def delayed(env: Environment, *, steps: int) -> Environment:
  """Actions act `steps` steps later; before the first one has arrived, 0 acts.

  Those under way are appended to the observation, the next to act first, without which the problem is not one
  of Markov's.

  Args:
    env: with continuous actions and flat observations.
    steps: at least 1.
  Raises:
    ValueError: `steps` is not positive, actions are not continuous, or observations are not flat.
  """
  if steps < 1:
    raise ValueError(f'steps={steps}: a delay is 1 step or more')
  if not isinstance(env.actions, Continuous) or len(env.observation_shape) != 1:
    raise ValueError(
        f'actions={env.actions}, observation_shape={env.observation_shape}: a delay needs continuous actions '
        'and flat observations'
    )

  def observe(observation, waiting):
    return jnp.concatenate([observation, waiting.reshape(-1)])

  def reset(key: Key):
    state, observation = env.reset(key)
    waiting = jnp.zeros((steps, env.actions.size))
    return (state, waiting), observe(observation, waiting)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner, waiting = state
    new = env.step(inner, waiting[0], key)
    waiting = jnp.concatenate([waiting[1:], jnp.clip(action, -1, 1)[None]])
    return new._replace(state=(new.state, waiting), observation=observe(new.observation, waiting))

  size = env.observation_shape[0] + steps * env.actions.size
  return dataclasses.replace(
      env, reset=reset, step=step, observation_shape=(size,), draw=draw_inner(env)
  )


def disturbed(env: Environment, *, std: float, persistence: float) -> Environment:
  """Something outside that nobody controls, such as the wind, is added to the actions; it is seen.

      z' = ρ z + √(1 - ρ²) σ ε,   and the world gets clip(a + z, ±1)

  z has a number for each of the action's, is drawn from N(0, σ²) at first, and depends on nothing but its own
  past. The z that the next action meets is appended to the observation.

  Args:
    env: with continuous actions and flat observations.
    std: σ, in units of the actions.
    persistence: ρ, in [0, 1): how much of it is still there a step later.
  Raises:
    ValueError: a number is out of its range, actions are not continuous, or observations are not flat.
  """
  if std < 0 or not 0 <= persistence < 1:
    raise ValueError(f'std={std}, persistence={persistence}: at least 0, and in [0, 1)')
  if not isinstance(env.actions, Continuous) or len(env.observation_shape) != 1:
    raise ValueError(
        f'actions={env.actions}, observation_shape={env.observation_shape}: a disturbance needs continuous '
        'actions and flat observations'
    )

  def reset(key: Key):
    reset_key, first_key = jax.random.split(key)
    state, observation = env.reset(reset_key)
    factor = std * jax.random.normal(first_key, env.actions.shape)
    return (state, factor), jnp.concatenate([observation, factor])

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner, factor = state
    step_key, next_key = jax.random.split(key)
    new = env.step(inner, jnp.clip(jnp.clip(action, -1, 1) + factor, -1, 1), step_key)
    fresh = jax.random.normal(next_key, factor.shape)
    factor = persistence * factor + math.sqrt(1 - persistence**2) * std * fresh
    return new._replace(
        state=(new.state, factor), observation=jnp.concatenate([new.observation, factor])
    )

  size = env.observation_shape[0] + env.actions.size
  return dataclasses.replace(
      env, reset=reset, step=step, observation_shape=(size,), draw=draw_inner(env)
  )


def noisy_observations(env: Environment, *, std: float) -> Environment:
  """Observations with Gaussian noise of standard deviation `std`; the world itself is as it was.

  Raises:
    ValueError: `std` is negative.
  """
  if std < 0:
    raise ValueError(f'std={std}: a standard deviation is at least 0')

  def noisy(observation, key: Key):
    return observation + std * jax.random.normal(key, observation.shape)

  def reset(key: Key):
    reset_key, noise_key = jax.random.split(key)
    state, observation = env.reset(reset_key)
    return state, noisy(observation, noise_key)

  def step(state: State, action: jax.Array, key: Key) -> Timestep:
    step_key, noise_key = jax.random.split(key)
    new = env.step(state, action, step_key)
    return new._replace(observation=noisy(new.observation, noise_key))

  return dataclasses.replace(env, reset=reset, step=step)


def constrained(
    env: Environment, cost: Callable[[jax.Array, jax.Array], jax.Array], *, limit: float
) -> Environment:
  """The environment with a constraint: the sum of costs in an episode should stay at or below `limit`.

  Rewards and ends are as they were; `info` has the episode's `cost` so far, and `violated`, 1 once that is
  above the limit.

  Args:
    env: any environment.
    cost: `(next observation, action) -> []`, at least 0; what a step costs.
    limit: of an episode.
  """

  def reset(key: Key):
    state, observation = env.reset(key)
    return (state, jnp.float32(0)), observation

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner, total = state
    new = env.step(inner, action, key)
    if isinstance(env.actions, Continuous):
      action = jnp.clip(action, -1, 1)
    total = total + cost(new.observation, action)
    info = {**new.info, 'cost': total, 'violated': (total > limit).astype(jnp.float32)}
    return new._replace(state=(new.state, total), info=info)

  return dataclasses.replace(env, reset=reset, step=step, draw=draw_inner(env))


def tripping(env: Environment, *, fine: float) -> Environment:
  """A `constrained` environment that is over, at a cost, as soon as its limit is exceeded.

  Args:
    env: whose `info` has `violated`.
    fine: is taken off the reward of the step that ends the episode so. Where rewards are negative it has to
      outweigh what is saved by ending early.
  Raises:
    ValueError: nothing is constrained, when the first step is taken.
  """

  def step(state: State, action: jax.Array, key: Key) -> Timestep:
    new = env.step(state, action, key)
    if 'violated' not in new.info:
      raise ValueError(f'info has {sorted(new.info)} and no `violated`; put constrained() inside')
    violated = new.info['violated'] > 0
    return new._replace(
        reward=new.reward - fine * new.info['violated'], terminated=new.terminated | violated,
        truncated=new.truncated & ~violated,
    )

  return dataclasses.replace(env, step=step)


def wrapped(
    *, inner: Callable[[], Environment], wrap: Callable[[Environment], Environment]
) -> Environment:
  """An environment in a wrapper, for a config; `inner` may be `wrapped` again.

  Args:
    inner: makes the environment.
    wrap: any of these functions, with its numbers.
  """
  return wrap(inner())


def scaled_reward(env: Environment, *, scale: float) -> Environment:
  """Rewards times `scale`, and the returns behind scores with them.

  Raises:
    ValueError: `scale` is not positive.
  """
  if scale <= 0:
    raise ValueError(f'scale={scale}: it has to be above 0, or better becomes worse')

  def step(state: State, action: jax.Array, key: Key) -> Timestep:
    new = env.step(state, action, key)
    return new._replace(reward=scale * new.reward)

  return dataclasses.replace(
      env, step=step, random_return=scale * env.random_return, expert_return=scale * env.expert_return
  )


def stacked(env: Environment, *, frames: int) -> Environment:
  """Shows the last observations [..., C] together, oldest first: [..., frames C]; the first one repeated.

  Args:
    env: with observations of one axis or more.
    frames: at least 1.
  Raises:
    ValueError: `frames` is not positive.
  """
  if frames < 1:
    raise ValueError(f'frames={frames}: at least the observation itself')
  show = lambda seen: jnp.concatenate(list(seen), axis=-1)

  def reset(key: Key):
    state, observation = env.reset(key)
    seen = jnp.stack([observation] * frames)
    return (state, seen), show(seen)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner, seen = state
    new = env.step(inner, action, key)
    seen = jnp.concatenate([seen[1:], new.observation[None]])
    return new._replace(state=(new.state, seen), observation=show(seen))

  *front, last = env.observation_shape
  shape = (*front, frames * last)
  return dataclasses.replace(env, reset=reset, step=step, observation_shape=shape, draw=draw_inner(env))


# --- what shows more ----------------------------------------------------------------------------------------


def chunked(*, inner: Callable[[], Environment], chunk: int) -> Environment:
  """An environment that shows, behind each observation, that of the chunk's first step and the place in it.

  Args:
    inner: makes the environment, with observations [O].
    chunk: k, after how many steps a new chunk begins.
  Returns:
    An environment with observations [O + O + k]; the place is one-hot.
  Raises:
    ValueError: `chunk` is not positive, or the observations are not vectors.
  """
  env = inner()
  if chunk < 1 or len(env.observation_shape) != 1:
    raise ValueError(f'chunk={chunk} of observations {env.observation_shape}: at least 1, and of vectors')

  def show(observation, start, place):
    return jnp.concatenate([observation, start, jax.nn.one_hot(place, chunk)])

  def reset(key: Key):
    state, observation = env.reset(key)
    return (state, observation, jnp.int32(0)), show(observation, observation, 0)

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner_state, start, place = state
    new = env.step(inner_state, action, key)
    place = (place + 1) % chunk
    start = jnp.where(place == 0, new.observation, start)
    return new._replace(
        state=(new.state, start, place), observation=show(new.observation, start, place)
    )

  size = 2 * env.observation_shape[0] + chunk
  return dataclasses.replace(
      env, reset=reset, step=step, observation_shape=(size,), draw=draw_inner(env)
  )


def commanded(*, env: Callable[[], Environment], target: float) -> Environment:
  """The environment with one more number behind its observations [O]: what is still wanted of the target.

  Args:
    env: makes the environment.
    target: return that is asked for, undiscounted.
  """
  inner = env()

  def reset(key: Key):
    state, observation = inner.reset(key)
    return (state, jnp.float32(target)), jnp.append(observation, target)

  def step(state, action: jax.Array, key: Key):
    inside, wanted = state
    new = inner.step(inside, action, key)
    wanted = wanted - new.reward
    return new._replace(state=(new.state, wanted), observation=jnp.append(new.observation, wanted))

  (size,) = inner.observation_shape
  return dataclasses.replace(
      inner, reset=reset, step=step, observation_shape=(size + 1,), draw=draw_inner(inner)
  )


def with_return(observations: jax.Array, returns: jax.Array | float) -> jax.Array:
  """Observations [..., O + 1] of a `commanded` environment, with other returns [...] wanted."""
  returns = jnp.broadcast_to(jnp.asarray(returns, jnp.float32), observations.shape[:-1])
  return jnp.concatenate([observations[..., :-1], returns[..., None]], axis=-1)
