"""Several models answer the same problems, each for itself: rows of each of them, whose groups are alike."""

from collections.abc import Mapping
import zlib

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.errors import ConfigError
from rlx.rollout.prompts import check_chance, check_groups, check_single, columns_of
from rlx.types import Batch, Key, Models, Rows, StatefulRollout, World


def same_problems(
    task: Task | Dataset, speakers: Mapping[str, Speaker], *, batch_size: int, group_size: int, num_slots: int
) -> StatefulRollout:
  """Draws training problems, and samples `group_size` answers of each from every model.

  Args:
    task: where problems come from.
    speakers: learner -> its model, by `names`; of one shape, for one program samples for all of them.
    batch_size: rows B of each learner.
    group_size: samples of a problem and a model; divides `batch_size`.
    num_slots: as for `prompts.completions`.
  Returns:
    A `rollout` function, `{learner: rows}`; row i of each learner answers the same problem, and `groups` say
    which. A model's noise is its own, and does not depend on who answers beside it.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.
  """
  num_problems = check_groups(batch_size, group_size)
  check_single(task)
  for speaker in speakers.values():
    check_chance(speaker, group_size)

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, num_problems)
    rows = answers_of_all(
        speakers, models, problems, sample_key, group_size=group_size, num_slots=num_slots
    )
    columns = columns_of(problems, group_size)
    return {name: {**columns, **batch} for name, batch in rows.items()}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def answers_of_all(
    speakers: Mapping[str, Speaker], models: Models, problems: Batch, key: Key, *, group_size: int,
    num_slots: int,
) -> dict[str, Batch]:
  """name -> rows, `group_size` of each problem, by one program for models of one shape.

  Args:
    speakers: name -> its functions.
    models: name -> its parameters.
    problems: [P] with `prompts, prompt_lengths`.
    key: the noise, of which each name gets its own.
    group_size: samples of a problem and a model.
    num_slots: as for `prompts.completions`.
  Raises:
    ConfigError: the models have several shapes.
  """
  names = [*speakers]
  params = stacked([models[name] for name in names], names)
  keys = jnp.stack([jax.random.fold_in(key, zlib.crc32(name.encode()) % 2**31) for name in names])

  def answer(own, own_key):
    return speakers[names[0]].sample(
        own, problems['prompts'], problems['prompt_lengths'], own_key, group_size=group_size,
        num_slots=num_slots,
    )

  rows = jax.vmap(answer)(params, keys)
  return {name: jax.tree.map(lambda x, i=i: x[i], rows) for i, name in enumerate(names)}


def stacked(trees: list, names: list[str]):
  """Trees as one, leaves [N, ...]. Raises `ConfigError` where they have several shapes."""
  shapes = [jax.tree.map(jnp.shape, tree) for tree in trees]
  if other := [name for name, shape in zip(names, shapes, strict=True) if shape != shapes[0]]:
    raise ConfigError(f'the models {other} have another shape than {names[0]!r}; give all the same sizes')
  return jax.tree.map(lambda *x: jnp.stack(x), *trees)
