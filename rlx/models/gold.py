"""Models of worlds whose true reward is known (`envs/gold.py`): the world, policies, reward models.

A world stays as it is, in `slow`; policies and reward models stand on it, so that what is trained is their
own direction alone.
"""

import jax
import jax.numpy as jnp

from rlx.envs import gold
from rlx.errors import at_least
from rlx.models.model import Model
from rlx.types import Key, Models


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


def hidden(world: gold.Worlds, *, size: int) -> Model:
  """A reward model tanh(φ W) · v, which begins with W normal, of variance 1/D, and v = 0.

  Args:
    world: what it stands on.
    size: H, numbers between, at least 1.
  """
  at_least(1, size=size)

  def init(key: Key, models: Models) -> dict:
    width = models['world'].features.shape[-1]
    return {'inner': jax.random.normal(key, (width, size)) * width**-0.5, 'outer': jnp.zeros(size)}

  return Model(
      functions=gold.Hidden(), init=init, stands_on=('world',),
      view=lambda own, models: {**own, 'world': models['world']},
  )


def voters(world: gold.Worlds, *, num: int) -> Model:
  """Reward models φ · v_m side by side, which begin with v_m normal, as short as the features are many.

  Args:
    world: what they stand on.
    num: M, at least 2.
  """
  at_least(2, num=num)

  def init(key: Key, models: Models) -> dict:
    width = models['world'].features.shape[-1]
    return {'direction': jax.random.normal(key, (num, width)) / width}

  return Model(
      functions=gold.Voters(num=num, member=gold.Linear(), axes={'direction': 0, 'world': None}), init=init,
      stands_on=('world',), view=lambda own, models: {**own, 'world': models['world']},
  )


def twins(world: gold.Worlds) -> Model:
  """What says whether two answers mean the same; it begins with no for all that differ.

  Args:
    world: what it stands on.
  """
  begin = lambda models: {'scales': jnp.zeros(models['world'].features.shape[-1]), 'bias': jnp.float32(0)}
  return Model(
      functions=gold.Twins(), init=lambda key, models: begin(models), stands_on=('world',),
      view=lambda own, models: {**own, 'world': models['world']},
  )


def critic(world: gold.Worlds, *, num_checks: int) -> Model:
  """What names a check to an answer; it begins with all as likely.

  Args:
    world: what it stands on.
    num_checks: C, as many as the world has.
  """
  begin = lambda models: jnp.zeros((models['world'].features.shape[-1], num_checks))
  return Model(
      functions=gold.Critic(), init=lambda key, models: {'directions': begin(models)}, stands_on=('world',),
      view=lambda own, models: {**own, 'world': models['world']},
  )


def _direction(functions, name: str) -> Model:
  """A model whose own parameters are a vector as wide as the features."""
  return Model(
      functions=functions, init=lambda key, models: {name: jnp.zeros(models['world'].features.shape[-1])},
      stands_on=('world',), view=lambda own, models: {**own, 'world': models['world']},
  )
