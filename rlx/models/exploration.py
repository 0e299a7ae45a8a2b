"""Exploration that becomes less: a share of random actions that a schedule says, in front of any policy.

How many train steps were taken is a model of its own, `exploration`, held in `slow` and counted by the
rollout `annealing`. So the schedule is resumed with the run and mapped over with its members.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment
from rlx.models.model import Model
from rlx.models.networks import Network, Policy, behind
from rlx.types import Key

EXPLORATION = 'exploration'  # the model that policies stand on


def exploration(*, schedule: Callable[[jax.Array], jax.Array]) -> Network:
  """A share in [0, 1] that follows the train steps: `apply(params) -> []`.

  Args:
    schedule: train step -> ε, such as `schedules.linear` and `schedules.exponential`.
  """
  return Network(init=lambda key: {'steps': jnp.int32(0)}, apply=lambda params: schedule(params['steps']))


def counted(params):
  """The parameters of `exploration` a train step later."""
  return {'steps': params['steps'] + 1}


def annealed(env: Environment, network: Policy, exploration: Network) -> Model:
  """A policy that does anything with probability ε, and else what it would have done; its mode is the same.

      π_ε(a | s) = (1 - ε) π(a | s) + ε / |A|

  An ε-greedy policy has its own ε besides, where the schedule ends at 0.

  Args:
    env: what is controlled.
    network: the policy.
    exploration: the model of this name, ε.
  Raises:
    ValueError: the actions are not discrete.
  """
  if not isinstance(env.actions, Discrete):
    raise ValueError(f'annealed: actions are {env.actions}; continuous ones have a noise of their own')
  num = env.actions.num

  def mixed(params, logprobs):
    share = exploration.apply(params[EXPLORATION])
    return jnp.logaddexp(jnp.log(1 - share) + logprobs, jnp.log(share / num))

  def sample(params, observations, key: Key):
    own_key, any_key, which_key = jax.random.split(key, 3)
    own, _ = network.sample(params['network'], observations, own_key)
    anything = jax.random.randint(any_key, own.shape, 0, num)
    at_random = jax.random.bernoulli(which_key, exploration.apply(params[EXPLORATION]), own.shape)
    actions = jnp.where(at_random, anything, own)
    return actions, mixed(params, network.score(params['network'], observations, actions)[0])

  def score(params, observations, actions):
    of = lambda a: network.score(params['network'], observations, jnp.full(actions.shape, a))[0]
    every = mixed(params, jax.vmap(of, out_axes=-1)(jnp.arange(num)))
    entropy = -jnp.sum(jnp.where(jnp.isfinite(every), jnp.exp(every) * every, 0), axis=-1)
    return mixed(params, network.score(params['network'], observations, actions)[0]), entropy

  own = behind(network, lambda params, observations: (params['network'], observations))
  return Model(
      functions=dataclasses.replace(own, sample=sample, score=score),
      init=lambda key, models: network.init(key), stands_on=(EXPLORATION,),
      view=lambda own, models: {'network': own, EXPLORATION: models[EXPLORATION]},
  )
