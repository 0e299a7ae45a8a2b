"""Episodes to be looked at: the states that a policy goes through, beside what it earns."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.evaluation import history
from rlx.models.history import History
from rlx.models.networks import Policy
from rlx.models.recurrent import Recurrent
from rlx.types import Key


def record(
    env: Environment, policy: Policy | Recurrent | History, params: Any, key: Key, *, episodes: int,
    max_steps: int,
) -> dict[str, Any]:
  """One episode in each of some environments, by what the policy thinks best.

  The episodes of a `Policy` are those of `episodes.episodes` with the same key. A `History` is asked for what
  an expert earns.

  Args:
    env: one environment.
    policy: what is shown.
    params: of the policy.
    key: of the starts and the world.
    episodes: how many, side by side.
    max_steps: after which an episode is left.
  Returns:
    `states` [max_steps + 1, episodes, ..], `lengths` [episodes] int32, steps until an episode ended or was
    left, `returns` [episodes] undiscounted, and `ended` [episodes] bool.
  Raises:
    ValueError: the policy is of no kind that can be played.
  """
  begin, act = _acting(env, policy)
  reset_key, steps_key = jax.random.split(key)
  states, observations = jax.vmap(env.reset)(jax.random.split(reset_key, episodes))

  def step(carry, inputs):
    states, observations, memory, alive, total, length = carry
    count, key = inputs
    _, env_key = jax.random.split(key)  # as `episodes.play`, whose policies may draw
    actions, memory = act(params, memory, observations, total, count)
    new = jax.vmap(env.step)(states, actions, jax.random.split(env_key, episodes))
    total = total + jnp.where(alive, new.reward, 0)
    return (new.state, new.observation, memory, alive & ~new.ended, total, length + alive), new.state

  zeros = jnp.zeros(episodes)
  carry = (states, observations, begin(episodes), zeros == 0, zeros, zeros.astype(jnp.int32))
  inputs = (jnp.arange(max_steps), jax.random.split(steps_key, max_steps))
  (_, _, _, alive, total, length), later = jax.lax.scan(step, carry, inputs)
  together = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), states, later)
  return {'states': together, 'lengths': length, 'returns': total, 'ended': ~alive}


def _acting(env: Environment, policy) -> tuple[Callable, Callable]:
  """`num -> memory`, and `(params, memory, observations, returns, count) -> (actions, memory)`."""
  if isinstance(policy, History):
    return history.acting(env, policy, target=env.expert_return)
  if isinstance(policy, Recurrent):

    def act(params, memory, observations, returns, count):
      del returns, count
      memory, logits, _ = policy.step(params, memory, observations)
      return jnp.argmax(logits, axis=-1), memory

    return lambda num: jnp.zeros((num, policy.size)), act
  if isinstance(policy, Policy):
    mode = lambda params, memory, observations, *_: (policy.mode(params, observations), memory)
    return lambda num: (), mode
  raise ValueError(f'{type(policy).__name__} is no policy that goes from observations to actions')
