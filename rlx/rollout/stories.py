"""Rows of stories (`envs/stories.py`): compared by readers, and the best of a search beside a plain one."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.envs.stories import StoryTask, StoryValue
from rlx.envs.text import EOS_ID
from rlx.errors import above, at_least
from rlx.losses.comparisons import both
from rlx.rollout import beam
from rlx.rollout.prompts import check_groups, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World


def measured(task: StoryTask, author: Speaker, params, batch: Batch) -> Batch:
  """The columns of `StoryValue` for rows of stories: `surprise, coherent, events` [B, C], event by event.

  Args:
    task: whose checker is asked.
    author: whom events surprise by -log p, by the name of a model that has learnt stories as they are told.
    params: of the author.
    batch: rows with `tokens, prompt_lengths` and the columns of their problems.
  """
  columns = author.decoding.max_tokens
  completions = window(batch['tokens'], batch['prompt_lengths'], columns)
  place = jnp.arange(batch['tokens'].shape[1])[None] - batch['prompt_lengths'][:, None]
  actions = {**batch, 'action_mask': (place >= 0) & (place < columns), 'valid': batch['tokens'] > 0}
  logprobs = window(author.score(params, actions)[0], batch['prompt_lengths'], columns)
  return {
      'surprise': -logprobs, 'coherent': task.coherent(batch, completions), 'events': completions > EOS_ID,
  }


def read_by_some(task: StoryTask, author: Speaker, *, batch_size: int, sharpness: float) -> StatefulRollout:
  """Two stories of an opening, the one first that a reader rather likes: comparisons for a value.

      P(first is liked) = σ(s (liked_1 - liked_2))

  Args:
    task: whose readers are asked.
    author: `models['author']`, tells the stories, and is surprised by them.
    batch_size: rows B of the batch, two an opening.
    sharpness: s, above 0.
  """
  num = check_groups(batch_size, 2)
  above(0, sharpness=sharpness)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key, reader_key = jax.random.split(key, 3)
    problems, world = task.draw(world, problem_key, num)
    rows = author.sample(
        models['author'], problems['prompts'], problems['prompt_lengths'], sample_key, group_size=2
    )
    rows = {**columns_of(problems, 2), **rows}
    liked = task.liked(rows, engine.completions_of(rows, author.decoding)).reshape(num, 2)
    first = jax.random.bernoulli(reader_key, jax.nn.sigmoid(sharpness * (liked[:, 0] - liked[:, 1])))
    order = 2 * jnp.arange(num)[:, None] + jnp.where(first[:, None], jnp.array([[0, 1]]), jnp.array([[1, 0]]))
    rows = jax.tree.map(lambda x: x[order.reshape(-1)], rows)
    told = {'groups': jnp.arange(2 * num) // 2, 'preferred': jnp.arange(2 * num) % 2 == 0}
    return {**rows, **measured(task, author, models['author'], rows), **told}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def prefix_value(task: StoryTask, author: Speaker, judge: StoryValue, models: Models) -> beam.PrefixValue:
  """What the first actions of rows are worth, by `models['judge']`, as `beam.search` asks it."""

  def value(rows: Batch, cuts: jax.Array, key: Key) -> jax.Array:
    del key
    found = measured(task, author, models['author'], rows)
    before = jnp.arange(found['events'].shape[1])[None] < cuts
    return judge.apply(models['judge'], {**found, 'events': found['events'] & before})[:, None]

  return value


def best_of_search(
    task: StoryTask, policy: Speaker, author: Speaker, judge: StoryValue, *, batch_size: int, beams: int,
    branches: int,
) -> StatefulRollout:
  """The best story of a search by the value, and the worst of as many plain ones: comparisons for ORPO.

  Args:
    task: where openings come from.
    policy: `models['policy']`, tells.
    author: `models['author']`, as for `measured`.
    judge: `models['judge']`, the value.
    batch_size: rows B of the batch, two an opening.
    beams: stories that are kept at each event.
    branches: continuations of each.
  Source: COS(M+O)S, https://arxiv.org/abs/2501.17104, from the abstract: a search by a value of surprise and
    coherence, and ORPO on what it likes best and least. A beam in the place of the tree of MCTS is ours.
  """
  num = check_groups(batch_size, 2)
  at_least(1, beams=beams, branches=branches)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, search_key, sample_key = jax.random.split(key, 3)
    problems, world = task.draw(world, problem_key, num)
    value = prefix_value(task, author, judge, models)
    found = searched(task, policy, models['policy'], problems, search_key, value, beams, branches)
    best = jax.tree.map(lambda x: x[::beams], found)
    plain = policy.sample(
        models['policy'], problems['prompts'], problems['prompt_lengths'], sample_key, group_size=branches
    )
    plain = {**columns_of(problems, branches), **plain}
    worth = judge.apply(models['judge'], measured(task, author, models['author'], plain))
    worst = jnp.argmin(worth.reshape(num, branches), axis=1) + branches * jnp.arange(num)
    names = ('tokens', 'valid', 'action_mask', 'prompt_lengths', 'turns')
    rows = {name: both(best[name], plain[name][worst]) for name in names}
    ahead = best['beam/values'] > worth[worst]
    return {
        **rows, 'groups': jnp.arange(2 * num) // 2, 'preferred': jnp.arange(2 * num) % 2 == 0,
        'weights': jnp.repeat(ahead, 2).astype(jnp.float32),
    }, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def searched(task, policy, params, problems, key, value, beams, branches) -> Batch:
  """`beam.search`, event by event."""
  return beam.search(
      params, policy, problems, key, value=value, separator=task.eos_ids[0], beams=beams, branches=branches,
      rounds=task.answer_columns, step_tokens=1,
  )
