"""A policy for each balance between staying near the data and leaving them, and one that picks balances.

Balances are numbers in [-1, 1], [..., 1] as actions are. Members are told theirs behind the observation
(`told`), the other policy looks at the observation alone; both are models of their own, and `family` is made
of the two.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Continuous, Environment
from rlx.models import networks
from rlx.models.model import Model
from rlx.models.networks import Policy
from rlx.types import Key


def family_members(
    env: Environment, *, hidden: tuple[int, ...], activation: str, initial_log_std: float
) -> Policy:
  """`gaussian`, for observations [O] with a balance behind them."""
  aware = dataclasses.replace(env, observation_shape=(env.observation_shape[0] + 1,))
  return networks.gaussian(aware, hidden=hidden, activation=activation, initial_log_std=initial_log_std)


def balance(env: Environment, *, hidden: tuple[int, ...], activation: str) -> Policy:
  """`squashed_gaussian`, whose actions are balances."""
  return networks.squashed_gaussian(
      dataclasses.replace(env, actions=Continuous(1)), hidden=hidden, activation=activation
  )


def family(members: Policy, balance: Policy) -> Model:
  """What the two do together: a `Policy` with parameters `{'members', 'balance'}`.

  `sample` draws a balance and then an action, whose log-probability is the member's; `mode` and `score` take
  the balance's mode.

  Args:
    members: such as `family_members`.
    balance: such as `balance`.
  """

  def best(params: Any, observations: jax.Array) -> jax.Array:
    return told(observations, balance.mode(params['balance'], observations))

  def sample(params: Any, observations: jax.Array, key: Key):
    balance_key, action_key = jax.random.split(key)
    picked, _ = balance.sample(params['balance'], observations, balance_key)
    return members.sample(params['members'], told(observations, picked), action_key)

  def mode(params: Any, observations: jax.Array) -> jax.Array:
    return members.mode(params['members'], best(params, observations))

  def score(params: Any, observations: jax.Array, actions: jax.Array):
    return members.score(params['members'], best(params, observations), actions)

  names = ('members', 'balance')
  return Model(
      functions=Policy(init=None, sample=sample, mode=mode, score=score), init=None, stands_on=names,
      view=lambda own, models: {name: models[name] for name in names},
  )


def told(observations: jax.Array, balance: jax.Array) -> jax.Array:
  """[..., O + 1] observations [..., O] with the balance [..., 1] behind them."""
  return jnp.concatenate([observations, balance], axis=-1)
