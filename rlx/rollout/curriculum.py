"""Completions of problems that are chosen by what is known of them: which, how many of each, and how long.

The problems are numbered, and a table in `world` says how each has gone so far (`controllers/statistics.py`).
Every step scores them all, draws some, deals out the rows of the batch among those, and afterwards takes the
outcomes in. Scores, draws, allocations and lengths are functions that are called with what they ask for by
name (`names.fill`): the `table`, the `step`, `key`, and the columns of the problems, such as `domains`.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp

from rlx.controllers import statistics
from rlx.controllers.allocation import expand
from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.names import fill
from rlx.types import Batch, Key, Models, StatefulRollout, World


def curriculum(
    task: Task | Dataset, policy: Speaker, *, num_problems: int, batch_size: int, num_prompts: int,
    num_slots: int, scores: Callable, draw: Callable, allocate: Callable, length: Callable, keep: float,
    prior_rate: float, prior_strength: float,
) -> StatefulRollout:
  """Draws problems by their statistics, and samples completions of each from `models['policy']`.

  The outcomes that the table takes in are the batch's `rewards`, which should be in [0, 1].

  Args:
    task: where problems come from.
    policy: samples.
    num_problems: N, how many problems there are: all rows of a data set; of a procedural task so many are
      made, always the same.
    batch_size: rows B of the batch.
    num_prompts: P, different problems in it; divides B.
    num_slots: as for `prompts.completions`.
    scores: how much each problem is wanted [N] (`controllers/prompts.py`).
    draw: `(scores, key, num) -> rows` (`controllers/prompts.py`).
    allocate: rows of each problem drawn, [P] (`controllers/allocation.py`), from their `rates`,
      `gradient_norms` and the `total`.
    length: the most tokens of a row, [], at most those of the policy's decoding (`controllers/schedules.py`).
    keep: the share of recent counts that stays each time a problem is seen (`statistics.update`).
    prior_rate: success rate of which `rates` starts, in (0, 1).
    prior_strength: samples that this is worth, above 0.
  Returns:
    A `rollout` function. Its batches have `rows`, and `groups` that may be of different size.
  Raises:
    ValueError: `num_prompts` does not divide `batch_size`, or `num_problems` is not that of the data set.
  """
  if num_prompts < 1 or batch_size % num_prompts:
    raise ValueError(f'num_prompts={num_prompts} does not divide rollout.batch_size={batch_size}')
  problems = numbered(task, num_problems)

  deal_out = functools.partial(
      deal, scores=scores, draw=draw, allocate=allocate, num_prompts=num_prompts, num_rows=batch_size,
      prior_rate=prior_rate, prior_strength=prior_strength,
  )

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    deal_key, sample_key = jax.random.split(key)
    problems, world = world['data'], {name: world[name] for name in ('statistics', 'batches')}
    rows, place, rates = deal_out(problems, world, deal_key)
    drawn = {name: jnp.asarray(x)[rows] for name, x in problems.items()}
    most = jnp.clip(fill(length, {'step': world['batches']}), 1, policy.decoding.max_tokens)
    batch = policy.sample(
        models['policy'], drawn['prompts'], drawn['prompt_lengths'], sample_key,
        group_size=batch_size // num_prompts, num_slots=num_slots, prompt_of_row=place,
        budgets=jnp.full(batch_size, most),
    )
    columns = {name: x[place] for name, x in drawn.items() if name not in ('prompts', 'prompt_lengths')}
    return {**columns, **batch, 'rows': rows[place], 'sampling/predicted_rate': rates[place]}, world

  return StatefulRollout(
      begin=lambda key: begin(num_problems), draw=rollout, data=problems,
      observe=functools.partial(observe, keep=keep),
  )


def begin(num_problems: int) -> World:
  """The memory of a curriculum of which nothing is known yet: `statistics`, and the number of `batches`."""
  return {'statistics': statistics.init(num_problems), 'batches': jnp.int32(0)}


def deal(
    problems: Batch, world: World, key: Key, *, scores: Callable, draw: Callable, allocate: Callable,
    num_prompts: int, num_rows: int, prior_rate: float, prior_strength: float,
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Which problems come next, and the rows of a batch among them; arguments as for `curriculum`.

  Args:
    problems: columns [N] that `scores` may ask for.
    world: of `begin` and `observe`.
    key: of the scores and the draw.
    num_rows: B.
  Returns:
    [P] int32 numbers of the problems; [B] int32 in 0..P-1, which of them each row is of; and [P] the success
    rates that were expected.
  """
  table, step = world['statistics'], world['batches']
  score_key, draw_key = jax.random.split(key)
  wanted = fill(scores, {**problems, 'table': table, 'step': step, 'key': score_key})
  rows = draw(wanted, draw_key, num_prompts)
  rates = statistics.posterior_mean(table, value=prior_rate, strength=prior_strength)[rows]
  norms = table.gradient_norms[rows]
  counts = fill(allocate, {'rates': rates, 'gradient_norms': norms, 'step': step, 'total': num_rows})
  return rows, expand(counts, num_rows), rates


def observe(world: World, batch: Batch, *, keep: float) -> World:
  """Takes in what became of a batch: `rows` and `rewards`, and where there are, `gradient_norms`."""
  counts = jnp.maximum(batch['action_mask'].sum(axis=1), 1)
  table = statistics.update(
      world['statistics'], batch['rows'], batch['rewards'], world['batches'], keep=keep,
      mask=batch.get('scored'), gradient_norms=batch.get('gradient_norms'),
      entropies=-batch['sampler_logprobs'].sum(axis=1) / counts,  # a sample of the policy's entropy, in nats
  )
  return {'statistics': table, 'batches': world['batches'] + 1}


def numbered(task: Task | Dataset, num_problems: int) -> Batch:
  """Problems [N] that have numbers: the columns of a data set's prompts, or of problems made once.

  Args:
    task: where they come from; a procedural task may make the same problem twice.
    num_problems: N.
  Raises:
    ValueError: a data set has another number of rows.
  """
  if isinstance(task, Dataset):
    if len(task.data['prompts']) != num_problems:
      raise ValueError(
          f'num_problems={num_problems}, but the data set has {len(task.data["prompts"])} training rows; '
          'pass that number'
      )
    return {name: task.data[name] for name in ('prompts', 'prompt_lengths')}
  return jax.device_get(task.sample(jax.random.key(0), num_problems, False))
