"""Partial rollouts: a train step does not wait for its longest rows; they go on in the next one.

More groups are begun than a batch needs. Decoding stops as soon as enough groups are whole; what is
unfinished is kept in `world`, its tokens and log-probs as they were drawn, and goes on in the next step under
the policy of that step. Groups stay together: a batch holds whole groups only, the oldest first, and no token
of a batch was drawn more than `max_age` train steps ago, for groups of that age are waited for. Where a world
answers (`partial_episodes`), its states are kept with the rows.

Noise is named after a group's number and a token's position, so that under the same parameters a row says
what it would have said at one go.
"""

from collections.abc import Callable
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx import sharding
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine import slots
from rlx.engine import turns as episodes
from rlx.engine.columns import window
from rlx.engine.slots import Bank, Queue
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.envs.text import Task
from rlx.models.transformer import KV
from rlx.rollout.prompts import check_chance, check_groups, columns_of
from rlx.rollout.turns import Horizon, as_world
from rlx.types import Batch, Key, Models, StatefulRollout, World

_WORLDS = np.uint32(2**32 - 1)  # names the noise of worlds, beside the numbers of rows


class Pool(NamedTuple):
  """N groups of G rows, begun or not, in the order in which they were drawn."""

  problems: Batch  # columns [N, ...], with `prompts` and `prompt_lengths`
  number: jax.Array  # [N] int32, counts the groups of a run
  age: jax.Array  # [N] int32, train steps since it was drawn
  counts: jax.Array  # [N * G] int32, actions drawn
  ended: jax.Array  # [N * G] bool
  tokens: jax.Array  # [N * G, max_tokens] int32
  logprobs: jax.Array  # [N * G, max_tokens] float32, of the policy that drew the token
  versions: jax.Array  # [N * G, max_tokens] int32, the train step in which the token was drawn
  talk: Any  # [N * G, ..], what else is known of a row; () of completions


class _Talk(NamedTuple):
  """What completions and episodes do in ways of their own."""

  begin: Callable  # (problems [n] of rows, the worlds' keys [n]) -> what else is known of n rows
  # (params, bank, queue, slots, pool, keys [n + 1], train step [], until) -> (slots, what else is known)
  go_on: Callable
  rows: Callable[[Pool, int], Batch]  # of groups that are whole, and of this size


def partial_completions(
    task: Task | Dataset,
    policy: Speaker,
    *,
    batch_size: int,
    group_size: int,
    num_slots: int,
    unfinished_groups: int,
    max_age: int,
) -> StatefulRollout:
  """Completions as of `prompts.completions`, of which the longest may take several train steps.

  Args:
    task: where problems come from.
    policy: samples.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: rows that are decoded at a time.
    unfinished_groups: groups that are begun beyond those of a batch, and kept over; at most as many as are in
      a batch.
    max_age: train steps after which a group is waited for, at least 1.
  Returns:
    A `rollout` function. Its batches have `policy_version` [B, T], the train step that drew a token, and
    `rollout/token_age`, the mean age of a row's actions in train steps.
  Raises:
    ValueError: numbers that do not go together.
  Source: Kimi k1.5, https://arxiv.org/abs/2501.12599, section 2.6.2. There a row is cut after a number of
    tokens a step; here decoding stops when enough groups are whole.
  """
  def go_on(params, bank, queue, begun, pool, keys, step, until):
    del pool, step
    draw = lambda hidden, sequence, count: engine.draw_tokens(
        params, policy.model, policy.decoding, keys[sequence], hidden, count
    )
    is_end = policy.decoding.is_end
    return slots.run(params, policy.model, bank, queue, begun, draw, is_end, until=until), ()

  def rows(pool: Pool, group_size: int) -> Batch:
    prompts, budgets = pool.problems['prompts'], jnp.full(pool.counts.size, policy.decoding.max_tokens)
    lengths = jnp.repeat(pool.problems['prompt_lengths'], group_size)
    return engine.as_rows(
        prompts, lengths, group_size, pool.tokens, pool.logprobs, budgets, policy.decoding
    )

  return _partial(
      task, policy, _Talk(lambda problems, keys: (), go_on, rows), batch_size=batch_size,
      group_size=group_size, num_slots=num_slots, unfinished_groups=unfinished_groups, max_age=max_age,
  )


def partial_episodes(
    task: Task,
    policy: Speaker,
    *,
    batch_size: int,
    group_size: int,
    num_slots: int,
    turn_tokens: int,
    max_turns: Horizon,
    unfinished_groups: int,
    max_age: int,
    read_tokens: int = 1,
) -> StatefulRollout:
  """Episodes as of `turns.episodes`, of which the longest may take several train steps.

  Args:
    task: the world.
    policy: speaks; its `max_tokens` is the room behind the prompt, observations included.
    batch_size: rows B of the batch, one an episode.
    group_size: episodes a problem; divides `batch_size`.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action, its end token included.
    max_turns: the most turns of an episode, by the train step in which it is asked.
    unfinished_groups: as for `partial_completions`.
    max_age: likewise.
    read_tokens: as for `turns.episodes`.
  Returns:
    A `rollout` function. Its batches are those of `turns.episodes`, with `policy_version` and
    `rollout/token_age` as of `partial_completions`; only actions have a version.
  Raises:
    ValueError: numbers that do not go together, a size that does not fit, or a task that is no world.
  """
  world_of, turns = as_world(task), Turns(turn_tokens, 2, read_tokens)
  check_chance(policy, group_size)
  episodes.check(world_of, policy.decoding, turns)

  def begin(problems: Batch, keys: Key) -> Any:
    fresh = episodes.fresh(world_of, problems, keys, columns=policy.decoding.max_tokens)
    return jax.tree.map(lambda x: x[:-1], fresh)

  def go_on(params, bank, queue, begun, pool, keys, step, until):
    here = turns._replace(max_turns=jnp.maximum(max_turns(step), 1))
    talk = jax.tree.map(lambda x: jnp.concatenate([x, x[:1]]), pool.talk)  # the last one of empty slots
    end, talk = episodes.go_on(
        params, policy.model, world_of, bank, queue, begun, talk, keys, decoding=policy.decoding,
        turns=here, until=until,
    )
    return end, jax.tree.map(lambda x: x[:-1], talk)

  def rows(pool: Pool, group_size: int) -> Batch:
    one = lambda x: x[:, None]  # row an episode
    known = pool.talk._replace(states=(), keys=(), kept=())
    known = known._replace(**{name: one(getattr(known, name)) for name in episodes.OF_ROWS})
    return episodes.as_rows(
        pool.problems['prompts'], pool.problems['prompt_lengths'], one(pool.tokens), one(pool.logprobs),
        one(pool.counts), known, group_size=group_size, decoding=policy.decoding,
    )

  return _partial(
      world_of, policy, _Talk(begin, go_on, rows), batch_size=batch_size, group_size=group_size,
      num_slots=num_slots, unfinished_groups=unfinished_groups, max_age=max_age,
  )


def _partial(
    task: Task | Dataset, policy: Speaker, talk: _Talk, *, batch_size: int, group_size: int, num_slots: int,
    unfinished_groups: int, max_age: int,
) -> StatefulRollout:
  """The rollout, whoever answers."""
  num_groups = check_groups(batch_size, group_size)
  if num_slots < 1 or max_age < 1 or not 1 <= unfinished_groups <= num_groups:
    raise ValueError(
        f'num_slots={num_slots}, max_age={max_age}, unfinished_groups={unfinished_groups}: the first two '
        f'must be at least 1, the last in 1..{num_groups}, the groups of a batch'
    )
  fresh = functools.partial(
      _fresh, talk=talk, group_size=group_size, max_tokens=policy.decoding.max_tokens
  )

  def begin(key: Key) -> World:
    task_key, noise_key = jax.random.split(key)
    world = task.begin(task_key)
    problems, _ = jax.eval_shape(lambda: task.draw(_with_data(world, task.data), key, unfinished_groups))
    zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), problems)
    pool = fresh(zeros, jnp.zeros(unfinished_groups, jnp.int32), noise_key)
    return {'task': world, 'pool': pool, 'noise_key': noise_key, 'step': jnp.int32(0), 'drawn': jnp.int32(0)}

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    pool, world = _fill(task, world, key, num_groups, unfinished_groups, fresh)
    pool = _on_shards(
        models['policy'], policy, talk, pool, world, num_slots=num_slots, num_kept=unfinished_groups,
        max_age=max_age,
    )
    whole = pool.ended.reshape(-1, group_size).all(axis=1)
    order = jnp.argsort(~whole, stable=True)
    finished, kept = (_take(pool, jnp.sort(part), group_size) for part in jnp.split(order, [num_groups]))
    batch = _with_versions(talk.rows(finished, group_size), finished, group_size, world['step'])
    world = {**world, 'pool': kept._replace(age=kept.age + 1), 'step': world['step'] + 1}
    return batch, world

  return StatefulRollout(begin=begin, draw=rollout, data=task.data, ahead=False)


def _with_data(world: World, data: Any) -> World:
  return world if data is None else {**world, 'data': data}


def _fresh(
    problems: Batch, number: jax.Array, noise_key: Key, *, talk: _Talk, group_size: int, max_tokens: int
) -> Pool:
  """A pool of groups that are not begun."""
  num = number.size * group_size
  of_rows = jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), problems)
  worlds = episodes.world_keys(jax.random.fold_in(noise_key, _WORLDS), _sequences(number, group_size))
  none = jnp.zeros((num, max_tokens), jnp.int32)
  return Pool(
      problems, number, jnp.zeros_like(number), counts=jnp.zeros(num, jnp.int32), ended=jnp.zeros(num, bool),
      tokens=none, logprobs=none.astype(jnp.float32), versions=none, talk=talk.begin(of_rows, worlds),
  )


def _sequences(number: jax.Array, group_size: int) -> jax.Array:
  """[N * G] int32 names of the rows of groups [N], which choose their noise."""
  return (number[:, None] * group_size + jnp.arange(group_size)[None]).reshape(-1)


def _fill(task, world, key, num_groups, unfinished_groups, fresh) -> tuple[Pool, World]:
  """The groups that are kept and those of this step; at the first step, new ones in their place."""
  data = world.get('data')
  world = {name: x for name, x in world.items() if name != 'data'}
  first_key, key = jax.random.split(key)
  draw = lambda world, key, num: task.draw(_with_data(world, data), key, num)
  is_first, noise_key = world['step'] == 0, world['noise_key']

  def first():
    problems, drawn = draw(world['task'], first_key, unfinished_groups)
    return fresh(problems, jnp.arange(unfinished_groups), noise_key), drawn

  kept, task_world = jax.lax.cond(is_first, first, lambda: (world['pool'], world['task']))
  drawn = jnp.where(is_first, unfinished_groups, world['drawn'])
  problems, task_world = draw(task_world, key, num_groups)
  new = fresh(problems, drawn + jnp.arange(num_groups), noise_key)
  pool = jax.tree.map(lambda *x: jnp.concatenate(x), kept, new)
  return pool, {**world, 'task': task_world, 'drawn': drawn + num_groups}


def _on_shards(params, policy, talk, pool: Pool, world, *, num_slots, num_kept, max_age) -> Pool:
  """The rows of the pool, further on: enough groups are whole, and so are all that may not wait.

  Each shard of devices has its part of the groups that were kept, and of the new ones, and goes on until as
  many of its groups are whole as it has new ones. So which groups are whole depends on the shards; what their
  rows say does not.
  """
  num_shards, group_size = sharding.row_shards(), pool.counts.size // pool.number.size
  keys = episodes.world_keys(world['noise_key'], _sequences(pool.number, group_size))
  step = jnp.broadcast_to(world['step'], pool.number.shape)
  groups = {'pool': pool, 'keys': keys, 'step': step, 'is_real': jnp.ones(pool.number.shape, bool)}
  size = lambda x: x.shape[0] // pool.number.size * num_kept  # of the part that was kept
  parts = {
      'kept': jax.tree.map(lambda x: x[: size(x)], groups),
      'new': jax.tree.map(lambda x: x[size(x) :], groups),
  }
  parts = {name: _filled_up(part, num_shards) for name, part in parts.items()}
  decode = functools.partial(
      _decode, policy=policy, talk=talk, num_slots=-(-num_slots // num_shards), max_age=max_age
  )
  model = policy.model
  out = sharding.over_rows(decode, params, parts, axes=model.axes, dtype=model.dtype, streamed=False)
  cut = lambda x, old, num: x[: old.shape[0] // pool.number.size * num]
  kept = jax.tree.map(lambda x, old: cut(x, old, num_kept), out['kept'], pool)
  new = jax.tree.map(lambda x, old: cut(x, old, pool.number.size - num_kept), out['new'], pool)
  after = jax.tree.map(lambda *x: jnp.concatenate(x), kept, new)
  is_new = jnp.arange(policy.decoding.max_tokens)[None] >= pool.counts[:, None]
  return after._replace(versions=jnp.where(is_new, world['step'], pool.versions))


def _filled_up(groups, num_shards: int):
  """Groups that divide, by copies of the last one behind them, which have ended and do not count."""
  num = groups['is_real'].size
  missing = -num % num_shards
  if not missing:
    return groups

  def pad(x):
    each = x.shape[0] // num
    index = jnp.minimum(jnp.arange(num + missing), num - 1)
    return x[(index[:, None] * each + jnp.arange(each)[None]).reshape(-1)]

  groups, is_real = jax.tree.map(pad, groups), jnp.arange(num + missing) < num
  group_size = groups['pool'].ended.size // is_real.size
  ended = groups['pool'].ended | ~jnp.repeat(is_real, group_size)
  return {**groups, 'is_real': is_real, 'pool': groups['pool']._replace(ended=ended)}


def _decode(params, parts, *, policy: Speaker, talk: _Talk, num_slots: int, max_age: int) -> dict[str, Pool]:
  """The rows of a shard's groups, further on, in the parts in which they came."""
  num_kept = parts['kept']['is_real'].size
  groups = jax.tree.map(lambda *x: jnp.concatenate(x), parts['kept'], parts['new'])
  pool, is_real = groups['pool'], groups['is_real']
  group_size = pool.counts.size // is_real.size
  bank, queue = _queue(params, policy, pool, num_kept * group_size)
  keys = jnp.concatenate([groups['keys'], groups['keys'][:1]])  # an empty slot draws too, for nothing

  def is_enough(state: slots.Slots) -> jax.Array:
    whole = state.ended[:-1].reshape(-1, group_size).all(axis=1)
    enough = (whole & is_real).sum() >= parts['new']['is_real'].sum()
    return enough & jnp.all(whole | (pool.age < max_age))

  begun = slots.begin(policy.model, bank, queue, num_slots=min(num_slots, pool.counts.size))
  end, known = talk.go_on(params, bank, queue, begun, pool, keys, groups['step'][0], is_enough)
  tokens, logprobs, counts, ended = (x[:-1] for x in (end.tokens, end.logprobs, end.counts, end.ended))
  pool = pool._replace(counts=counts, ended=ended, tokens=tokens, logprobs=logprobs, talk=known)
  size = lambda x: x.shape[0] // is_real.size * num_kept
  return {
      'kept': jax.tree.map(lambda x: x[: size(x)], pool), 'new': jax.tree.map(lambda x: x[size(x) :], pool)
  }


def _queue(params, policy: Speaker, pool: Pool, num_kept: int) -> tuple[Bank, Queue]:
  """The rows that have not ended: new ones go on from their prompt, others from all that they have."""
  prompts, lengths = pool.problems['prompts'], pool.problems['prompt_lengths']
  max_tokens = policy.decoding.max_tokens
  num_groups, columns = prompts.shape[0], prompts.shape[1] + max_tokens
  group_size = pool.counts.size // num_groups
  prompt_lengths = jnp.repeat(lengths, group_size)
  read = functools.partial(slots.read_prompts, params, policy.model, columns=columns)
  begun = jnp.pad(jnp.repeat(prompts, group_size, axis=0)[:num_kept], ((0, 0), (0, max_tokens)))
  behind = window(pool.tokens[:num_kept], -prompt_lengths[:num_kept], columns)
  inside = jnp.arange(columns)[None] < prompt_lengths[:num_kept, None]
  begun = jnp.where(inside, begun, behind)
  of_prompts, of_begun = read(prompts, lengths), read(begun, (prompt_lengths + pool.counts)[:num_kept])
  join = lambda x, y: jnp.concatenate([x, y], axis=1)
  bank = Bank(
      hidden=jnp.concatenate([of_prompts.hidden, of_begun.hidden]),
      kv=KV(join(of_prompts.kv.keys, of_begun.kv.keys), join(of_prompts.kv.values, of_begun.kv.values)),
  )
  row = jnp.arange(pool.counts.size)
  queue = Queue(
      order=jnp.argsort(pool.ended, stable=True),
      length=jnp.sum(~pool.ended),
      beginnings=jnp.where(pool.counts > 0, num_groups + row, row // group_size),
      prompt_lengths=prompt_lengths,
      budgets=jnp.full(row.size, max_tokens),
      counts=pool.counts,
      tokens=pool.tokens,
      logprobs=pool.logprobs,
  )
  return bank, queue


def _take(pool: Pool, groups: jax.Array, group_size: int) -> Pool:
  """Some groups of a pool."""
  rows = (groups[:, None] * group_size + jnp.arange(group_size)[None]).reshape(-1)
  by_group = ('problems', 'number', 'age')
  index = {name: groups if name in by_group else rows for name in Pool._fields}
  return Pool(**{
      name: jax.tree.map(lambda x, name=name: x[index[name]], getattr(pool, name)) for name in Pool._fields
  })


def _with_versions(batch: Batch, pool: Pool, group_size: int, step: jax.Array) -> Batch:
  """The rows of groups, with their problems' columns and with the age of their tokens."""
  mask = batch['action_mask']
  versions = window(pool.versions, -batch['prompt_lengths'], mask.shape[1])
  ages = jnp.sum(jnp.where(mask, step - versions, 0), axis=1) / jnp.maximum(mask.sum(axis=1), 1)
  return {
      **columns_of(pool.problems, group_size),
      **batch,
      'policy_version': jnp.where(mask, versions, -1),
      'rollout/token_age': ages.astype(jnp.float32),
  }
