"""Worlds of preferences whose gold reward is a list of checks: the share of them that an answer passes."""

import jax
import jax.numpy as jnp

from rlx.envs.gold import World, Worlds, gold_world, standard
from rlx.errors import above, at_least, between
from rlx.types import Key


def rubric_worlds(
    *, num_prompts: int, num_answers: int, width: int, num_checks: int, passed: float, hidden: float
) -> Worlds:
  """Worlds whose answers have to pass several checks; the true reward is the share that they pass.

  A check is passed by the answers that lead in a direction of its own, a share of them all.

  Args:
    num_prompts: X.
    num_answers: K, at least 2.
    width: D.
    num_checks: C, at least 2.
    passed: share of answers that pass a check, in (0, 1).
    hidden: standard deviation of what is no function of the features, where that of the rest is 1.
  """
  at_least(2, num_checks=num_checks)
  above(0, passed=passed)
  between(0, 0.99, passed=passed)
  plain = {'num_prompts': num_prompts, 'num_answers': num_answers, 'width': width}

  def make(key: Key) -> World:
    world, scores = _scored(key, plain, num_checks=num_checks, hidden=hidden)
    return _with_checks(world, _passing(scores, passed))

  return Worlds(make=make)


def luring_worlds(
    *, num_prompts: int, num_answers: int, width: int, num_checks: int, passed: float, hidden: float,
    lure: float, bound: float, shy: float,
) -> Worlds:
  """As `rubric_worlds`, with a feature that helps to pass all checks but one, which too much of it fails.

  The last check is passed where the first feature is below a bound, beyond which the reference seldom goes:
  who has seen its answers alone has hardly ever seen that check fail.

  Args:
    num_prompts: X.
    num_answers: K, at least 2.
    width: D.
    num_checks: C, at least 2.
    passed: share of answers that pass a check, the last one apart, in (0, 1).
    hidden: as for `rubric_worlds`.
    lure: what the first feature adds to the scores of the other checks, whose deviation is about 1.
    bound: of the first feature, whose deviation is 1.
    shy: what the reference's logits are lower by beyond the bound.
  """
  at_least(2, num_checks=num_checks)
  above(0, passed=passed)
  between(0, 0.99, passed=passed)
  at_least(0, lure=lure, shy=shy)
  plain = {'num_prompts': num_prompts, 'num_answers': num_answers, 'width': width}

  def make(key: Key) -> World:
    world, scores = _scored(key, plain, num_checks=num_checks, hidden=hidden)
    first = world.features[..., 0]
    checks = _passing(scores + lure * first[..., None], passed).at[..., -1].set(first < bound)
    base = jax.nn.log_softmax(world.base - shy * (first >= bound))
    return _with_checks(world.replace(base=base), checks)

  return Worlds(make=make)


def _scored(key: Key, plain: dict, *, num_checks: int, hidden: float) -> tuple[World, jax.Array]:
  """A world, and what its answers come to in each check [X, K, C]."""
  base_key, direction_key, noise_key = jax.random.split(key, 3)
  world = gold_world(base_key, **plain, hump=0.0, hidden=hidden, spread=1.0)
  width = world.features.shape[-1]
  directions = jax.random.normal(direction_key, (width, num_checks)) * width**-0.5
  scores = world.features @ directions
  return world, scores + hidden * jax.random.normal(noise_key, scores.shape)


def _passing(scores: jax.Array, passed: float) -> jax.Array:
  """[X, K, C] bool, True for a share of the answers in each check."""
  return scores > jnp.quantile(scores, 1 - passed, axis=(0, 1), keepdims=True)


def _with_checks(world: World, checks: jax.Array) -> World:
  return world.replace(checks=checks, gold=standard(checks.mean(axis=2)))
