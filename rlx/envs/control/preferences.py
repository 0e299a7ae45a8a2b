"""Problems with several objectives, seen by an agent that is told what to care for.

Each episode draws weights of the objectives from a symmetric Dirichlet distribution, evenly from the simplex
where its concentration is 1; they are shown behind the observation and pay the weighted sum. One policy is
then asked for all trade-offs, and the front that it reaches is read off by asking it for each
(`rlx.evaluation.pareto`).

Source: the idea of a policy that is conditioned on weights is that of Abels et al., 2018,
https://arxiv.org/abs/1809.07803.
"""

from collections.abc import Callable, Sequence
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs.control import treasure
from rlx.envs.control.environment import Environment, State, Timestep, draw_inner
from rlx.types import Key


def treasure_preferences(*, max_steps: int, scales: Sequence[float], concentration: float) -> Environment:
  """Deep sea treasure for weights of [treasure, time], each divided by its scale."""
  env = treasure.treasure(max_steps=max_steps, treasure_weight=1.0, time_weight=0.0)
  return with_preferences(
      env, vector_rewards=treasure.vector_rewards, scales=scales, concentration=concentration
  )


def with_preferences(
    env: Environment, *, vector_rewards: Callable[[jax.Array], jax.Array], scales: Sequence[float],
    concentration: float,
) -> Environment:
  """The environment that pays Σ_k w_k r_k / scale_k, with w drawn in each episode.

  Args:
    env: with observations [N].
    vector_rewards: `next observation [N] -> [K]`, r.
    scales: K of them, above 0, so that the weights of objectives of different units mean something.
    concentration: of the weights, above 0; 1 draws them evenly, and the larger, the nearer all are to 1 / K.
  Returns:
    An environment with observations [N + K]; the scores of its returns mean nothing.
  Raises:
    ValueError: a scale or the concentration is not positive.
  """
  if min(*scales, concentration) <= 0:
    raise ValueError(f'scales={tuple(scales)}, concentration={concentration}: all above 0')
  divisors = jnp.array(scales, jnp.float32)
  alphas = jnp.full(len(scales), concentration, jnp.float32)

  def reset(key: Key):
    reset_key, weights_key = jax.random.split(key)
    return begun(*env.reset(reset_key), jax.random.dirichlet(weights_key, alphas))

  def step(state, action: jax.Array, key: Key) -> Timestep:
    inner, weights = state
    new = env.step(inner, action, key)
    state, observation = begun(new.state, new.observation, weights)
    reward = jnp.sum(weights * vector_rewards(new.observation) / divisors)
    return new._replace(state=state, observation=observation, reward=reward)

  size = env.observation_shape[0] + len(scales)
  return dataclasses.replace(
      env, reset=reset, step=step, observation_shape=(size,), draw=draw_inner(env)
  )


def begun(state: State, observation: jax.Array, weights: jax.Array) -> tuple[State, jax.Array]:
  """State and observation of the inner environment, with weights [K] beside them."""
  return (state, weights), jnp.concatenate([observation, weights])


def preferring(env: Environment, weights: jax.Array) -> Environment:
  """An environment of `with_preferences` in which every episode has these weights [K]."""

  def reset(key: Key):
    (inner, _), observation = env.reset(key)
    return begun(inner, observation[: -weights.shape[0]], weights)

  return dataclasses.replace(env, reset=reset)
