"""Pairs of answers to the same problem, the better beside the worse one: what a reward model learns from."""

import dataclasses

import jax

from rlx.rewards.host import check_compiles
from rlx.rewards.of_learners import best_and_worst
from rlx.types import Annotate, Batch, Key, Models, Rollout, StatefulRollout, World, keep_world, stateful


def paired(rollout: Rollout, reward: Annotate) -> StatefulRollout:
  """The best and the worst row of each group of a rollout, as `rewards.of_learners.pairs` has them.

  Args:
    rollout: a section of its own; what it remembers of its rows, it does not learn here.
    reward: scores its rows, a section of its own or that of the run; it has to compile.
  """
  check_compiles(reward)
  inner = stateful(rollout)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    draw_key, reward_key = jax.random.split(key)
    batch, world = inner(models, world, draw_key)
    return best_and_worst(reward(models, batch, reward_key)), world

  return dataclasses.replace(inner, draw=draw, observe=keep_world)
