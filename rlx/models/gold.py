"""Models of worlds whose true reward is known (`envs/gold.py`): the world, policies, reward models.

A world stays as it is, in `slow`; policies and reward models stand on it, so that what is trained is their
own direction alone.
"""

import jax.numpy as jnp

from rlx.envs import gold
from rlx.models.model import Model


def world(task: gold.Worlds) -> Model:
  """A world of the run, another one for each seed; it belongs into `slow`.

  Args:
    task: the family that it is of.
  """
  return Model(functions=task, init=lambda key, models: task.make(key))


def other_side(world: gold.Worlds) -> Model:
  """The world with its two rewards exchanged: a role `world` by `names` is then about the other one.

  Args:
    world: what it is made of, with two rewards.
  """
  exchanged = lambda seen: seen.replace(gold=seen.other, other=seen.gold)
  return Model(
      functions=world, init=None, stands_on=('world',), view=lambda own, models: exchanged(models['world'])
  )


def log_linear(world: gold.Worlds) -> Model:
  """A policy ref(y|x) exp(φ(x, y) · θ) / Z, which begins as the reference, θ = 0.

  Args:
    world: what it stands on.
  """
  return _direction(gold.LogLinear(), 'theta')


def linear(world: gold.Worlds) -> Model:
  """A reward model φ · v, which begins with 0.

  Args:
    world: what it stands on.
  """
  return _direction(gold.Linear(), 'direction')


def _direction(functions, name: str) -> Model:
  """A model whose own parameters are a vector as wide as the features."""
  return Model(
      functions=functions, init=lambda key, models: {name: jnp.zeros(models['world'].features.shape[-1])},
      stands_on=('world',), view=lambda own, models: {**own, 'world': models['world']},
  )
