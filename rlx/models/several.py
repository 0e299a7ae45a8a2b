"""Several policies in one model: side by side, or by turns."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.envs.control.turns import controls
from rlx.models import networks
from rlx.models.networks import Network, Policy
from rlx.types import Key


def several(env: Environment, *, num: int, member: Callable[[Environment], Policy]) -> Network:
  """Policies side by side; every leaf of their parameters gains a leading [num].

  `apply(params, observations [..., O], actions [..., A]) -> [num, ...]`: log-probabilities.

  Args:
    env: what they act in.
    num: N, at least 2.
    member: makes one of them.
  Raises:
    ValueError: there are less than two.
  """
  if num < 2:
    raise ValueError(f'num={num} policies side by side: at least 2')
  policy = member(env)
  scored = lambda params, observations, actions: policy.score(params, observations, actions)[0]
  return Network(
      init=lambda key: jax.vmap(policy.init)(jax.random.split(key, num)),
      apply=jax.vmap(scored, (0, None, None)),
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
