"""What a policy that remembers earns: `episodes.episodes` with a carry."""

import jax
import jax.numpy as jnp

from rlx import ahead
from rlx.envs.control import stepping
from rlx.envs.control.environment import Environment
from rlx.evaluation.episodes import EPISODES_SEED, check_counts, described, numbers
from rlx.evaluation.evaluation import Evaluation
from rlx.models.recurrent import Recurrent
from rlx.types import Key, Models, World


def episodes(env: Environment, policy: Recurrent, *, episodes: int, max_steps: int) -> Evaluation:
  """Episodes in which the policy does what it thinks best.

  Args:
    env: one environment.
    policy: what is examined.
    episodes: how many, side by side.
    max_steps: after which an episode that has not ended is left.
  Raises:
    ValueError: a number is not positive.
  """
  check_counts(episodes=episodes, max_steps=max_steps)

  def ask(models: Models, world: World):
    del world
    key = jax.random.key(EPISODES_SEED)
    return described(env, play(env, policy, models['policy'], key, episodes, max_steps))

  return Evaluation(ask=ask, read=numbers)


def play(env: Environment, policy: Recurrent, params, key: Key, num: int, max_steps: int) -> jax.Array:
  """[num] undiscounted returns of one episode each, by the likeliest actions."""
  reset_key, steps_key = jax.random.split(key)
  states, observations = stepping.reset_all(env, reset_key, num, params)

  def step(carry, key: Key):
    states, observations, remembered, alive, total = carry
    remembered, logits, _ = policy.step(params, remembered, observations)
    new = stepping.step_all(env, states, jnp.argmax(logits, axis=-1), key)
    total = total + jnp.where(alive, new.reward, 0)
    return (new.state, new.observation, remembered, alive & ~new.ended, total), None

  carry = (states, observations, jnp.zeros((num, policy.size)), jnp.ones(num, bool), jnp.zeros(num))
  (states, *_, total), _ = ahead.scan(step, carry, jax.random.split(steps_key, max_steps))
  stepping.done_with(env, states)
  return total
