"""What a policy earns in an environment: whole episodes, from fresh starts that are the same for every run.

The numbers are mean and worst of the undiscounted returns, and the score between a random policy (0) and an
expert (100). Those of many runs are put together by `aggregates.py`.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from rlx import ahead
from rlx.envs.control import stepping
from rlx.envs.control.environment import Environment
from rlx.evaluation.evaluation import Evaluation
from rlx.models.networks import Policy
from rlx.types import Key, Models, World

EPISODES_SEED = 0


def episodes(env: Environment, policy: Policy, *, episodes: int, max_steps: int) -> Evaluation:
  """Episodes in which the policy does what it thinks best (`Policy.mode`).

  Args:
    env: one environment.
    policy: what is examined.
    episodes: how many, side by side.
    max_steps: after which an episode that has not ended is left; those are `unfinished`.
  """
  act = lambda params, observations, key: policy.mode(params, observations)
  return _played(env, act, episodes, max_steps)


def sampled_episodes(env: Environment, policy: Policy, *, episodes: int, max_steps: int) -> Evaluation:
  """`episodes` in which the policy acts as it does in training (`Policy.sample`)."""
  act = lambda params, observations, key: policy.sample(params, observations, key)[0]
  return _played(env, act, episodes, max_steps)


def _played(env, act, num_episodes, max_steps) -> Evaluation:
  check_counts(episodes=num_episodes, max_steps=max_steps)

  def ask(models: Models, world: World):
    del world
    played = play(env, act, models['policy'], jax.random.key(EPISODES_SEED), num_episodes, max_steps)
    return {name: x.mean() for name, x in played.items()} | described(env, played['return'])

  return Evaluation(ask=ask, read=numbers)


def described(env: Environment, returns: jax.Array) -> dict[str, jax.Array]:
  """`return`, `return_worst` and, where the environment says what is good, `score` of returns [num]."""
  numbers = {'return': returns.mean(), 'return_worst': returns.min()}
  return {**numbers, 'score': env.score(returns.mean())} if env.is_scored else numbers


def numbers(answer: dict[str, jax.Array]) -> tuple[dict[str, float], list[dict]]:
  """How an evaluation without texts is read."""
  return {name: float(x) for name, x in answer.items()}, []


def check_counts(**counts: int) -> None:
  """Raises `ValueError` where a count is not positive."""
  if min(counts.values()) < 1:
    raise ValueError(f'{", ".join(f"{name}={count}" for name, count in counts.items())}: at least 1 each')


def play(
    env: Environment, act: Callable[[Any, jax.Array, Key], jax.Array], params: Any, key: Key, num: int,
    max_steps: int,
) -> dict[str, jax.Array]:
  """Plays one episode in each of `num` environments.

  Args:
    env: one environment.
    act: `(params, observations [num, ...], key) -> actions`.
    params: of the policy.
    key: of the starts, the policy and the world.
    num: environments.
    max_steps: when to stop in any case.
  Returns:
    [num] float32 each: `return` (undiscounted), `length`, `unfinished`, and the `info` of the last steps.
  """
  reset_key, steps_key = jax.random.split(key)
  states, observations = stepping.reset_all(env, reset_key, num, params)

  def step(carry, key):
    states, observations, alive, total, length, info = carry
    action_key, env_key = jax.random.split(key)
    actions = act(params, observations, action_key)
    new = stepping.step_all(env, states, actions, env_key)
    total = total + jnp.where(alive, new.reward, 0)
    info = jax.tree.map(lambda a, b: jnp.where(alive, a, b), new.info, info)
    carry = (new.state, new.observation, alive & ~new.ended, total, length + alive, info)
    return carry, None

  new = jax.eval_shape(
      lambda: stepping.step_all(env, states, act(params, observations, key), key)
  )
  info = {name: jnp.zeros(num) for name in new.info}
  carry = (states, observations, jnp.ones(num, bool), jnp.zeros(num), jnp.zeros(num), info)
  carry, _ = ahead.scan(step, carry, jax.random.split(steps_key, max_steps))
  states, _, alive, total, length, info = carry
  stepping.done_with(env, states)
  return {'return': total, 'length': length, 'unfinished': alive.astype(jnp.float32), **info}
