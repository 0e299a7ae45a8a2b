"""What a policy that remembers earns: `evaluate_control.episodes` with a carry."""

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.evaluation.text import Evaluation
from rlx.models.recurrent import Recurrent
from rlx.types import Key

_EPISODES_SEED = 0


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
  if min(episodes, max_steps) < 1:
    raise ValueError(f'episodes={episodes}, max_steps={max_steps}: at least 1 each')

  def ask(params):
    returns = play(env, policy, params, jax.random.key(_EPISODES_SEED), episodes, max_steps)
    return {
        'eval/return': returns.mean(),
        'eval/return_worst': returns.min(),
        'eval/score': env.score(returns.mean()),
    }

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def play(env: Environment, policy: Recurrent, params, key: Key, num: int, max_steps: int) -> jax.Array:
  """[num] undiscounted returns of one episode each, by the likeliest actions."""
  reset_key, steps_key = jax.random.split(key)
  states, observations = jax.vmap(env.reset)(jax.random.split(reset_key, num))

  def step(carry, key: Key):
    states, observations, remembered, alive, total = carry
    remembered, logits, _ = policy.step(params, remembered, observations)
    new = jax.vmap(env.step)(states, jnp.argmax(logits, axis=-1), jax.random.split(key, num))
    total = total + jnp.where(alive, new.reward, 0)
    return (new.state, new.observation, remembered, alive & ~new.ended, total), None

  carry = (states, observations, jnp.zeros((num, policy.size)), jnp.ones(num, bool), jnp.zeros(num))
  (*_, total), _ = jax.lax.scan(step, carry, jax.random.split(steps_key, max_steps))
  return total
