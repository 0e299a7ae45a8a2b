"""Policies that decide on several actions at one look: a planner, and a head that makes actions of its plan.

A plan is a carry for each action; given the carries, actions are independent. Both are models of their own,
and `sequence` is the policy that is made of them.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.models import mlp, networks
from rlx.models.model import Model
from rlx.models.networks import Network, Policy
from rlx.models.recurrent import gated
from rlx.types import Key


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Sequence(Policy):
  """A `Policy` of single actions that can also decide ahead; its parameters are `{'planner', 'head'}`.

  Attributes:
    carries: `(params, observations [..., O], length) -> [..., length, D]`, what each action is made of.
    head: a policy with carries for observations, parameters `params['head']`.
  """

  carries: Callable[[Any, jax.Array, int], jax.Array]
  head: Policy


def gru_planner(env: Environment, *, size: int, hidden: tuple[int, ...], activation: str) -> Network:
  """A gated recurrent unit that reads the same observation again at each place of the sequence.

      r = σ(f_r(s) + U_r h),   z = σ(f_z(s) + U_z h),   h ← (1 - z) tanh(f_n(s) + r U_n h) + z h

  `apply(params, observations [..., O], length) -> [..., length, D]`: sequences may be of any length, whatever
  length was trained with.

  Args:
    env: what is controlled; observations [O].
    size: D of the carry.
    hidden: units of each hidden layer of f.
    activation: between the layers of f.
  Raises:
    ValueError: observations are no vectors.
  """
  if len(env.observation_shape) != 1:
    raise ValueError(f'gru_planner: observations {env.observation_shape}; it needs vectors')
  act = mlp.activation(activation)
  shape = dict(scale=math.sqrt(2), final_scale=1.0, layer_norm=False)

  def init(key: Key):
    input_key, recurrent_key = jax.random.split(key)
    return {
        'input': mlp.init(input_key, (*env.observation_shape, *hidden, 3 * size), **shape),
        'recurrent': mlp.init(recurrent_key, (size, 3 * size), **shape),
    }

  def apply(params, observations, length):
    of_input = mlp.apply(params['input'], observations, act)

    def step(carry, _):
      carry = gated(of_input, mlp.apply(params['recurrent'], carry, act), carry)
      return carry, carry

    begin = jnp.zeros((*observations.shape[:-1], size))
    _, each = jax.lax.scan(step, begin, length=length)
    return jnp.moveaxis(each, 0, -2)

  return Network(init=init, apply=apply)


def repeating_planner(env: Environment, *, size: int, hidden: tuple[int, ...], activation: str) -> Network:
  """A network whose answer is the carry at every place of the sequence: one action, repeated.

  With it a `sequence` is a policy that holds its actions until it looks again. (Sampled ones differ by their
  noise, which is drawn at each step.) `apply` is that of `gru_planner`.

  Args:
    env: what is controlled; observations [O].
    size: D of the carry.
    hidden: units of each hidden layer.
    activation: between the layers, and of the carry.
  Raises:
    ValueError: observations are no vectors.
  """
  if len(env.observation_shape) != 1:
    raise ValueError(f'repeating_planner: observations {env.observation_shape}; it needs vectors')
  act = mlp.activation(activation)

  def init(key: Key):
    sizes = (*env.observation_shape, *hidden, size)
    return mlp.init(key, sizes, scale=math.sqrt(2), final_scale=math.sqrt(2), layer_norm=False)

  def apply(params, observations, length):
    carry = act(mlp.apply(params, observations, act))
    return jnp.repeat(carry[..., None, :], length, axis=-2)

  return Network(init=init, apply=apply)


def gaussian_head(env: Environment, *, size: int) -> Policy:
  """A linear `squashed_gaussian` of carries.

  Args:
    env: says which actions.
    size: D of a carry.
  """
  seen = dataclasses.replace(env, observation_shape=(size,))
  return networks.squashed_gaussian(seen, hidden=(), activation='identity')


def sequence(planner: Network, head: Policy) -> Model:
  """The policy that takes the first action of its plan.

  Args:
    planner: such as `gru_planner`.
    head: such as `gaussian_head`, for its carries.
  """
  carries = lambda params, observations, length: planner.apply(params['planner'], observations, length)
  now = lambda params, observations: carries(params, observations, 1)[..., 0, :]
  names = ('planner', 'head')
  return Model(
      functions=Sequence(init=None, carries=carries, head=head, **_acts(head, now)), init=None,
      stands_on=names, view=lambda own, models: {name: models[name] for name in names},
  )


def paced(policy: Sequence, env: Environment) -> Policy:
  """The policy in `chunked` environments of any chunk: it decides at the first step and then does not look.

  Args:
    policy: decides ahead.
    env: that is chunked, before it was.
  """
  (size,) = env.observation_shape

  def now(params, observations):
    start, place = observations[..., size : 2 * size], observations[..., 2 * size :]
    return jnp.sum(policy.carries(params, start, place.shape[-1]) * place[..., None], axis=-2)

  return Policy(init=None, **_acts(policy.head, now))


def _acts(head: Policy, now) -> dict[str, Callable]:
  """`sample`, `mode` and `score` of the action that is made of the carry `now(params, observations)`."""
  return {
      'sample': lambda params, seen, key: head.sample(params['head'], now(params, seen), key),
      'mode': lambda params, seen: head.mode(params['head'], now(params, seen)),
      'score': lambda params, seen, actions: head.score(params['head'], now(params, seen), actions),
  }
