"""Snippets that a retriever takes, in front of the files that they are taken for."""

import jax
import jax.numpy as jnp

from rlx.envs.snippets import SnippetTask
from rlx.models.networks import Network
from rlx.rollout.prompts import check_groups
from rlx.types import Batch, Key, Models, StatefulRollout, World


def retrievals(task: SnippetTask, retriever: Network, *, batch_size: int, group_size: int) -> StatefulRollout:
  """Draws training problems, and `group_size` choices for each from the softmax of the retriever's scores.

  Args:
    task: files and repositories.
    retriever: scores the candidates of a file.
    batch_size: rows B of the batch.
    group_size: choices for a file; divides `batch_size`.
  Returns:
    A `rollout` function. Its rows are files behind what was chosen for them, whose actions are what comes
    next, to be scored by a generator. Columns: `choices` [B], `choice_logprobs` [B], `queries`,
    `candidates` and `solutions` of the problem, but not which snippet was needed.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.
  """
  num_problems = check_groups(batch_size, group_size)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, choice_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, num_problems)
    known = {name: jnp.repeat(problems[name], group_size, axis=0) for name in _KNOWN}
    scores = retriever.apply(models['retriever'], known['queries'], known['candidates'])
    choices = jax.random.categorical(choice_key, scores)
    rows = behind_choices(task, known, choices)
    chances = jnp.take_along_axis(jax.nn.log_softmax(scores), choices[:, None], axis=1)[:, 0]
    groups = jnp.repeat(jnp.arange(num_problems), group_size)
    return {**rows, **known, 'choices': choices, 'choice_logprobs': chances, 'groups': groups}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


_KNOWN = ('queries', 'candidates', 'solutions')


def behind_choices(task: SnippetTask, problems: Batch, choices: jax.Array) -> Batch:
  """Rows of a generator: what was chosen, the file, and what comes next as the actions.

  Args:
    task: the world.
    problems: [B] with `queries`, `candidates`, `solutions`.
    choices: [B] numbers of candidates.
  """
  chosen = jnp.take_along_axis(problems['candidates'], choices[:, None, None], axis=1)[:, 0]
  return task.with_snippets(problems['queries'], chosen, problems['solutions'])
