"""What a policy earns that sees its last steps, when a return is asked of it.

What is asked for goes down by what was earned, as in the data that it has learnt from.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment
from rlx.evaluation.episodes import EPISODES_SEED, check_counts, described, numbers
from rlx.evaluation.evaluation import Evaluation
from rlx.models.history import INPUTS, History
from rlx.types import Key, Models, World


def episodes(
    env: Environment, policy: History, *, target: float, episodes: int, max_steps: int
) -> Evaluation:
  """Episodes in which a return is asked for, and the likeliest actions are taken.

  Args:
    env: one environment.
    policy: what is examined.
    target: the return that is asked for, undiscounted.
    episodes: how many, side by side.
    max_steps: after which an episode that has not ended is left.
  Raises:
    ValueError: a number is not positive.
  """
  check_counts(episodes=episodes, max_steps=max_steps)

  def ask(models: Models, world: World):
    del world
    key, numbered = jax.random.key(EPISODES_SEED), dict(num=episodes, max_steps=max_steps)
    return described(env, play(env, policy, models['policy'], key, target=target, **numbered))

  return Evaluation(ask=ask, read=numbers)


def play(
    env: Environment, policy: History, params, key: Key, *, target: float | jax.Array, num: int,
    max_steps: int,
) -> jax.Array:
  """[num] undiscounted returns of one episode each, with the last K steps in sight."""
  reset_key, steps_key = jax.random.split(key)
  states, observations = jax.vmap(env.reset)(jax.random.split(reset_key, num))
  begin, act = acting(env, policy, target=target)

  def step(carry, inputs):
    states, observations, window, alive, total = carry
    count, key = inputs
    actions, window = act(params, window, observations, total, count)
    new = jax.vmap(env.step)(states, actions, jax.random.split(key, num))
    total = total + jnp.where(alive, new.reward, 0)
    return (new.state, new.observation, window, alive & ~new.ended, total), None

  carry = (states, observations, begin(num), jnp.ones(num, bool), jnp.zeros(num))
  inputs = (jnp.arange(max_steps), jax.random.split(steps_key, max_steps))
  (*_, total), _ = jax.lax.scan(step, carry, inputs)
  return total


def acting(env: Environment, policy: History, *, target: float | jax.Array) -> tuple[Callable, Callable]:
  """How the policy acts step by step.

  Returns:
    `num -> window`, of which nothing has happened yet, and `(params, window, observations [num, ...], returns
    so far [num], steps so far []) -> (actions, window)`.
  """
  best = _likeliest if isinstance(env.actions, Discrete) else lambda outputs: outputs
  integers = jnp.int32 if isinstance(env.actions, Discrete) else jnp.float32

  def begin(num: int) -> dict[str, jax.Array]:
    room = lambda shape, dtype=jnp.float32: jnp.zeros((num, policy.length, *shape), dtype)
    return {
        'wanted': room(()), 'observations': room(env.observation_shape),
        'actions': room(env.actions.shape, integers), 'steps': room((), jnp.int32),
    }

  def act(params, window, observations, returns, count):
    column = jnp.minimum(count, policy.length - 1)
    # A full window moves up by a step, and the newest stands at its end.
    window = jax.tree.map(lambda x: jnp.where(count < policy.length, x, jnp.roll(x, -1, axis=1)), window)
    put = lambda name, x: window[name].at[:, column].set(x)
    seen = {'wanted': target - returns, 'observations': observations, 'steps': count}
    window |= {name: put(name, x) for name, x in seen.items()}
    actions = best(policy.apply(params, *(window[name] for name in INPUTS))[:, column])
    return actions, window | {'actions': put('actions', actions)}

  return begin, act


def _likeliest(logits: jax.Array) -> jax.Array:
  return jnp.argmax(logits, axis=-1).astype(jnp.int32)
