"""Sampling episodes: sequences that speak in turns and read what a world answers, in the loop of `slots.py`.

A slot whose sequence has something to read is fed that, without a draw; the others draw. A turn ends with an
end token, or after so many tokens; then the world acts for the slots whose turn has ended, and its reply is
written behind what the sequence has, where the slot reads it. Keys and values go on: nothing is read twice.
An episode ends by its world, by the limit of turns or for want of room, and its slot takes the next one.

Where a context is rewritten (`Rewriting`), an episode has several rows: its world goes on, and the slot goes
on with the next row, whose beginning, behind the same prompt, is what was kept; nobody is trained on that.

Read and said tokens stand in one row. The noise of a token is that of its sequence and place, as ever, and
the world's key is of its sequence and turn: neither depends on slots, neighbours or meshes.

`Episodes` holds what is known of each sequence while the loop runs; `answered` is one reply for those that
are due, whoever spoke: the policy in `sample`, the world's expert in `demonstrate`.
"""

from collections.abc import Callable
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.engine import sample as engine
from rlx.engine import shards
from rlx.engine import slots as queues
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.slots import Bank, Queue, Slots
from rlx.envs.turns import TurnTask
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch, Key

_LATER = 1 << 30  # no place in a row


class Turns(NamedTuple):
  """How long episodes and their turns are."""

  turn_tokens: int  # the most tokens of an action, its end token included
  max_turns: jax.Array | int  # of an episode; may be traced
  read_tokens: int = 1  # that are read at once, in steps of their own; 1: in the steps in which others draw


class Rewriting(NamedTuple):
  """What becomes of a context that has no room for another turn; see `rollout/contexts.py`."""

  rows: int  # K, of an episode at most; 1 for none but the first
  # (heard [T], turn [T], valid [T], last []) -> keep [T] bool, of one row whose last turn has that number
  keep: Callable[..., jax.Array]
  marker: int = -1  # token that asks the policy for a summary first; -1 for none
  summary_tokens: int = 0  # the most tokens of one, its end token included


OF_ROWS = ('begun', 'told', 'sums_up', 'heard', 'closes', 'rewards', 'understood', 'anchors')
WHOLE = Rewriting(rows=1, keep=lambda heard, turn, valid, last: valid)


class Episodes(NamedTuple):
  """E episodes of K rows, N = E K, and one more each, of empty slots. T columns behind the prompt."""

  states: Any  # [E + 1, ...] of their worlds
  keys: jax.Array  # [E + 1] of their worlds
  turn: jax.Array  # [E + 1] int32, actions so far
  truncated: jax.Array  # [E + 1] bool, ended by a limit alone
  info: dict[str, jax.Array]  # [E + 1] float32 each, of the last turn
  kept: tuple[jax.Array, jax.Array]  # [E + 1, O] an observation that waits for a summary, [E + 1] its length
  begun: jax.Array  # [N + 1] int32, where the action begins that is being said
  told: jax.Array  # [N + 1] int32, tokens up to here are there to be read
  sums_up: jax.Array  # [N + 1] bool, that action is a summary
  heard: jax.Array  # [N + 1, T] bool, the token is the world's
  closes: jax.Array  # [N + 1, T] bool, the token is the last one of an action; there are, of that turn:
  rewards: jax.Array  # [N + 1, T] float32
  understood: jax.Array  # [N + 1, T] bool
  anchors: jax.Array  # [N + 1, T] int32, the state before it


def world_keys(key: Key, sequence_ids: jax.Array) -> jax.Array:
  """[N] keys of the worlds of some sequences."""
  return jax.vmap(lambda sequence: jax.random.fold_in(key, sequence))(sequence_ids)


def fresh(task: TurnTask, problems: Batch, keys: jax.Array, *, columns: int, rows: int = 1) -> Episodes:
  """Episodes before their first turn.

  Args:
    task: the world.
    problems: columns [E] of `task.sample`.
    keys: [E] of their worlds.
    columns: T, the room behind the prompt, in tokens.
    rows: K, of an episode.
  """
  more = lambda x: jnp.concatenate([x, x[:1]])
  states, keys = jax.tree.map(more, jax.vmap(task.start)(problems)), more(keys)
  num, num_rows = keys.shape[0], (keys.shape[0] - 1) * rows + 1
  state = jax.tree.map(lambda x: x[0], states)
  info = jax.eval_shape(task.act, state, jnp.zeros(1, jnp.int32), jnp.int32(1), keys[0]).info
  number, none = jnp.zeros(num_rows, jnp.int32), jnp.zeros((num_rows, columns), bool)
  waiting = (jnp.zeros((num, task.observation_columns), jnp.int32), jnp.zeros(num, jnp.int32))
  return Episodes(
      states=states, keys=keys, turn=jnp.zeros(num, jnp.int32), truncated=jnp.zeros(num, bool),
      info={name: jnp.zeros(num) for name in info}, kept=waiting, begun=number, told=number,
      sums_up=jnp.zeros(num_rows, bool), heard=none, closes=none, rewards=jnp.zeros((num_rows, columns)),
      understood=none, anchors=jnp.zeros((num_rows, columns), jnp.int32),
  )


def answered(
    task: TurnTask, turns: Turns, rewriting: Rewriting, episodes: Episodes, tokens: jax.Array,
    sequence: jax.Array, end: jax.Array, due: jax.Array, budgets: jax.Array,
) -> tuple[Episodes, jax.Array, jax.Array, jax.Array]:
  """What worlds reply to those whose turn has ended.

  Args:
    task: the world.
    turns: how long episodes are.
    rewriting: what becomes of full rows.
    episodes: before.
    tokens: [N + 1, T] of all rows; the actions are there.
    sequence: [S] in 0..N, the rows that are looked at.
    end: [S] int32, the column behind their actions.
    due: [S] bool, whose turn has ended; nothing happens to others.
    budgets: [S] int32, the room of each.
  Returns:
    The episodes, the tokens with what is read behind the actions, [S] bool, whose row is over, and [S] the
    rows that follow, N where there is none.
  """
  reply, anchor, acts = _replies(task, turns, rewriting, episodes, tokens, sequence, end, due)
  episode, none = sequence // rewriting.rows, tokens.shape[0] - 1
  over = acts & (reply.ended | (episodes.turn[episode] + 1 >= turns.max_turns))
  left, reserve, sums = (sequence + 1) % rewriting.rows != 0, 0, rewriting.marker >= 0
  if sums:  # room for one more action, what asks for the summary, and the summary
    reserve = jnp.where(left, turns.turn_tokens + 1 + rewriting.summary_tokens, 0)
  # One more token, of an action, has to fit behind what is read.
  full = due & ~over & (~acts | (end + reply.length + reserve >= budgets))
  asks = full & acts & left & sums
  rewrites, goes_on = full & left & ~asks, acts & ~over & ~full
  finished = over | (full & ~left)
  episodes = _told(episodes, reply, anchor, due, acts, finished, sequence, episode, end)
  if sums:
    episodes, tokens = _asked_to_sum_up(rewriting, episodes, tokens, reply, asks, sequence, episode, end)
  episodes, tokens = _read_next(episodes, tokens, reply, goes_on, sequence, end)
  if rewriting.rows > 1:
    episodes, tokens = _next_row(rewriting, episodes, tokens, reply, rewrites, sequence, end)
  return episodes, tokens, finished | rewrites, jnp.where(rewrites, sequence + 1, none)


def _replies(task, turns, rewriting, episodes, tokens, sequence, end, due):
  """The reply to each, its state before, and who was replied to: a summary is the policy's own affair.

  What waited for the summary takes the place of a reply to it.
  """
  episode, sums_up = sequence // rewriting.rows, episodes.sums_up[sequence]
  begun, turn, acts = episodes.begun[sequence], episodes.turn[episode], due & ~sums_up
  states = jax.tree.map(lambda x: x[episode], episodes.states)
  action = window(tokens[sequence], begun, turns.turn_tokens)

  def ask():
    keys = jax.vmap(jax.random.fold_in)(episodes.keys[episode], turn)
    return jax.vmap(task.act)(states, action, end - begun, keys), jax.vmap(task.state_id)(states)

  nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(ask))
  reply, anchor = jax.lax.cond(jnp.any(due), ask, lambda: nothing)  # a summary has an anchor too
  if rewriting.marker >= 0:
    observation, length = (x[episode] for x in episodes.kept)
    reply = reply._replace(
        observation=jnp.where(sums_up[:, None], observation, reply.observation),
        length=jnp.where(sums_up, length, reply.length),
    )
  return reply, anchor, acts


def _told(episodes, reply, anchor, due, acts, finished, sequence, episode, end) -> Episodes:
  """The episodes behind an action, and what was said of it."""
  row, none = jnp.where(due, sequence, episodes.heard.shape[0]), episodes.turn.shape[0]
  who, gone = jnp.where(acts, episode, none), jnp.where(finished, episode, none)
  store = lambda array, x: array.at[who].set(x, mode='drop')
  mark = lambda array, x: array.at[row, end - 1].set(x, mode='drop')
  return episodes._replace(
      states=jax.tree.map(store, episodes.states, reply.state),
      turn=store(episodes.turn, episodes.turn[episode] + 1),
      truncated=episodes.truncated.at[gone].set(~(acts & reply.ended), mode='drop'),
      info={name: store(x, reply.info[name].astype(jnp.float32)) for name, x in episodes.info.items()},
      closes=mark(episodes.closes, True),
      rewards=mark(episodes.rewards, jnp.where(acts, reply.reward, 0).astype(jnp.float32)),
      understood=mark(episodes.understood, ~acts | reply.understood),
      anchors=mark(episodes.anchors, anchor),
  )


def _read_next(episodes, tokens, reply, goes_on, sequence, end):
  """The observations behind the actions, of those who go on in the same row."""
  place = end[:, None] + jnp.arange(reply.observation.shape[1])[None]
  behind = end + reply.length
  place = jnp.where(goes_on[:, None] & (place < behind[:, None]), place, tokens.shape[1])
  read = lambda array, x: array.at[sequence[:, None], place].set(x, mode='drop')
  row = jnp.where(goes_on, sequence, tokens.shape[0])
  set_ = lambda array: array.at[row].set(behind, mode='drop')
  episodes = episodes._replace(
      begun=set_(episodes.begun), told=set_(episodes.told), heard=read(episodes.heard, True)
  )
  return episodes, read(tokens, reply.observation)


def _asked_to_sum_up(rewriting, episodes, tokens, reply, asks, sequence, episode, end):
  """The sign that asks for a summary behind the actions; what the world answered waits."""
  row, who = jnp.where(asks, sequence, tokens.shape[0]), jnp.where(asks, episode, episodes.turn.shape[0])
  put = lambda array, x: array.at[row].set(x, mode='drop')
  observation, length = episodes.kept
  episodes = episodes._replace(
      begun=put(episodes.begun, end + 1), told=put(episodes.told, end + 1),
      sums_up=put(episodes.sums_up, True), heard=episodes.heard.at[row, end].set(True, mode='drop'),
      kept=(
          observation.at[who].set(reply.observation, mode='drop'),
          length.at[who].set(reply.length, mode='drop'),
      ),
  )
  return episodes, tokens.at[row, end].set(rewriting.marker, mode='drop')


def _next_row(rewriting, episodes, tokens, reply, rewrites, sequence, end):
  """What is kept of full rows, and the observations behind it, as the beginnings of the rows that follow.

  No more than half the room is kept: of more, the newest.
  """
  num, columns = tokens.shape
  valid = jnp.arange(columns)[None] < end[:, None]
  heard, closes = episodes.heard[sequence] & valid, episodes.closes[sequence] & valid
  turn = jnp.cumsum(closes, axis=1) - closes - heard
  keep = jax.vmap(rewriting.keep)(heard, turn, valid, closes.sum(axis=1) - 1) & valid
  total = keep.sum(axis=1, keepdims=True)
  keep &= jnp.cumsum(keep, axis=1) > total - columns // 2
  counts = keep.sum(axis=1)
  place = jnp.where(keep & rewrites[:, None], jnp.cumsum(keep, axis=1) - 1, columns)
  row = jnp.where(rewrites, sequence + 1, num)
  tokens = tokens.at[row[:, None], place].set(tokens[sequence], mode='drop')
  behind = counts + reply.length
  offset = counts[:, None] + jnp.arange(reply.observation.shape[1])[None]
  offset = jnp.where(offset < behind[:, None], offset, columns)
  tokens = tokens.at[row[:, None], offset].set(reply.observation, mode='drop')
  put = lambda array, x: array.at[row].set(x, mode='drop')
  return episodes._replace(
      begun=put(episodes.begun, behind), told=put(episodes.told, behind),
      heard=put(episodes.heard, jnp.arange(columns)[None] < behind[:, None]),
  ), tokens


def sample(
    params: Params,
    model: LanguageModel,
    task: TurnTask,
    problems: Batch,
    key: Key,
    *,
    group_size: int,
    decoding: Decoding,
    turns: Turns,
    num_slots: int,
    sequence_ids: jax.Array | None = None,
    world_key: Key,
    rewriting: Rewriting = WHOLE,
) -> Batch:
  """Episodes of problems, `group_size` of each; the rows of a group are consecutive.

  Args:
    params: of the policy.
    model: its functions.
    task: the world.
    problems: [P] of `task.sample`.
    key: the noise of the policy.
    group_size: episodes a problem.
    decoding: how tokens are drawn. `max_tokens` is the room behind the prompt, what is read included, and
      `min_tokens` counts from there.
    turns: how long episodes and their turns are.
    num_slots: episodes that are in the loop at a time; 0 for all.
    sequence_ids: [P * group_size] int32 names of the sequences, which choose their noise; 0, 1, 2, ... if
      not given.
    world_key: the noise of the worlds.
    rewriting: what becomes of a context that is full.
  Returns:
    A batch of B = P * group_size * K rows of prompt_columns + max_tokens tokens; see `as_rows`.
  Raises:
    ValueError: something does not fit.
  """
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  engine.check_context(model, decoding, prompts.shape[1])
  check(task, decoding, turns, rewriting)
  num_rows = prompts.shape[0] * group_size
  ids = jnp.arange(num_rows) if sequence_ids is None else sequence_ids
  rows = {
      'keys': jax.vmap(lambda one: jax.random.fold_in(key, one))(ids),
      'worlds': world_keys(world_key, ids),
      'problems': jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), problems),
      'max_turns': jnp.broadcast_to(jnp.asarray(turns.max_turns, jnp.int32), (num_rows,)),
  }
  decode = functools.partial(
      _converse, model=model, task=task, decoding=decoding, turns=turns, rewriting=rewriting,
      num_slots=-(-(num_slots or num_rows) // sharding.row_shards()),
  )
  tokens, logprobs, counts, episodes = shards.over_groups(
      decode, params, prompts, lengths, rows, group_size=group_size, axes=model.axes, dtype=model.dtype
  )
  return as_rows(
      prompts, lengths, tokens, logprobs, counts, episodes, group_size=group_size, decoding=decoding
  )


def _converse(
    params, prompts, prompt_lengths, given, group_size, *, model, task, decoding, turns, rewriting, num_slots
):
  """Tokens, log-probs [E, K, T] and counts [E, K] of the episodes of a shard, and what is known of them."""
  num, rows = given['keys'].shape[0], rewriting.rows
  params, bank, queue, begun = engine.open_queue(
      params, model, prompts, prompt_lengths, jnp.full(num * rows, decoding.max_tokens),
      group_size=group_size * rows, decoding=decoding, num_slots=min(num_slots, num),
      order=_firsts_first(num, rows), length=num,
  )
  here = turns._replace(max_turns=given['max_turns'][0])
  episodes = fresh(task, given['problems'], given['worlds'], columns=decoding.max_tokens, rows=rows)
  end, episodes = go_on(
      params, model, task, bank, queue, begun, episodes, _keys_of_rows(given['keys'], rows),
      decoding=decoding, turns=here, rewriting=rewriting,
  )
  known = episodes._replace(states=(), keys=(), kept=())
  cut = lambda x: x[:-1].reshape(num, rows, *x.shape[1:])  # of an episode each: shards deal in episodes
  of_rows = {name: cut(getattr(known, name)) for name in OF_ROWS}
  known = jax.tree.map(lambda x: x[:-1], known)._replace(**of_rows)
  return cut(end.tokens), cut(end.logprobs), cut(end.counts), known


def go_on(
    params: Params, model: LanguageModel, task: TurnTask, bank: Bank, queue: Queue, slots: Slots,
    episodes: Episodes, keys: jax.Array, *, decoding: Decoding, turns: Turns, rewriting: Rewriting = WHOLE,
    until: Callable[[Slots], jax.Array] = lambda slots: jnp.bool_(False),
) -> tuple[Slots, Episodes]:
  """Episodes further on, from wherever they are, until all have ended or until it is told to stop.

  Args:
    params: of the policy, as its decoding loop reads them.
    model: its functions.
    task: the world.
    bank: beginnings of the rows.
    queue: the N rows.
    slots: of `slots.begin`, or of an earlier call.
    episodes: of `fresh`, or of an earlier call.
    keys: [N + 1], the noise of each row; an empty slot draws too, for nothing.
    decoding: how tokens are drawn.
    turns: how long episodes and their turns are.
    rewriting: what becomes of full rows.
    until: stops the loop; asked before each step.
  """
  draw = lambda hidden, sequence, count: engine.draw_tokens(
      params, model, decoding, keys[sequence], hidden, count
  )
  hear = functools.partial(_hear, task, turns, rewriting, decoding, queue)
  read = functools.partial(_read, params, model, queue, turns.read_tokens)
  return queues.converse(params, model, bank, queue, slots, episodes, draw, hear, read=read, until=until)


def _firsts_first(num: int, rows: int) -> jax.Array:
  """[num * rows] int32: the first row of each episode, and then those that may follow."""
  number = jnp.arange(num * rows)
  return jnp.argsort(number % rows != 0, stable=True).astype(jnp.int32)


def _keys_of_rows(keys: jax.Array, rows: int) -> jax.Array:
  """[N + 1] keys: that of an episode for its first row, others for the next; an empty slot draws too."""
  later = lambda key: jax.vmap(lambda row: jax.random.fold_in(key, _LATER + row))(jnp.arange(1, rows))
  every = keys[:, None]
  if rows > 1:
    every = jnp.concatenate([every, jax.vmap(later)(keys)], axis=1)
  every = every.reshape(-1)
  return jnp.concatenate([every, every[:1]])


def _hear(task, turns, rewriting, decoding, queue, episodes: Episodes, slots: Slots, drawn):
  """For `slots.converse`: what is there to be read, and the worlds' replies where a turn ends."""
  sequence, live = slots.sequence, slots.sequence < queue.budgets.shape[0]
  count = slots.counts[sequence]
  reading = count < episodes.told[sequence]
  tokens = jnp.where(reading, slots.tokens[sequence, count], drawn[0])
  logprobs = jnp.where(reading, 0, drawn[1])
  budgets = queue.budgets[jnp.minimum(sequence, queue.budgets.shape[0] - 1)]
  end = count + 1
  most = jnp.where(episodes.sums_up[sequence], rewriting.summary_tokens, turns.turn_tokens)
  long = (end - episodes.begun[sequence] >= most) | (end >= budgets)
  due = live & ~reading & (decoding.is_end(tokens) | long)
  so_far = slots.tokens.at[sequence, count].set(tokens)
  episodes, so_far, over, follows = answered(
      task, turns, rewriting, episodes, so_far, sequence, end, due, budgets
  )
  follows = follows if rewriting.rows > 1 else None
  return (tokens, logprobs), lambda tokens: over[:, None], slots._replace(tokens=so_far), episodes, follows


def _read(params, model, queue, read_tokens: int, episodes: Episodes, slots: Slots) -> Slots:
  """For `slots.converse`: blocks of what is there to be read."""
  if read_tokens == 1:
    return slots
  live = slots.sequence < queue.budgets.shape[0]
  pending = jnp.where(live, episodes.told[slots.sequence] - slots.counts[slots.sequence], 0)
  return queues.read_ahead(params, model, queue, slots, pending, num_tokens=read_tokens)


def demonstrate(
    task: TurnTask, problems: Batch, key: Key, *, decoding: Decoding, turns: Turns, most_turns: int
) -> Batch:
  """Episodes of the world's expert as rows; `sampler_logprobs` are 0.

  Args:
    task: the world.
    problems: [N] of `task.sample`.
    key: the noise of the worlds.
    decoding: `max_tokens` is the room behind the prompt.
    turns: how long episodes and their turns are; a longer action is cut.
    most_turns: a number that `turns.max_turns` does not exceed.
  """
  check(task, decoding, turns)
  lengths, num = problems['prompt_lengths'], problems['prompt_lengths'].shape[0]
  columns, sequence = decoding.max_tokens, jnp.arange(num)
  episodes = fresh(task, problems, world_keys(key, sequence), columns=columns)

  def turn(carry, _):
    episodes, tokens, counts, over = carry
    action, length = jax.vmap(task.expert)(jax.tree.map(lambda x: x[:-1], episodes.states))
    begun = episodes.told[:-1]
    length = jnp.minimum(jnp.minimum(length, turns.turn_tokens), columns - begun)
    place = jnp.arange(action.shape[1])[None]
    place = jnp.where((place < length[:, None]) & ~over[:, None], begun[:, None] + place, columns)
    tokens = tokens.at[sequence[:, None], place].set(action, mode='drop')
    end = begun + length
    counts = jnp.where(over, counts, end)
    episodes, tokens, done, _ = answered(
        task, turns, WHOLE, episodes, tokens, sequence, end, ~over, jnp.full(num, columns)
    )
    return (episodes, tokens, counts, over | done), None

  tokens = jnp.full((num + 1, columns), decoding.pad_id, jnp.int32)
  carry = (episodes, tokens, jnp.zeros(num, jnp.int32), jnp.zeros(num, bool))
  (episodes, tokens, counts, _), _ = jax.lax.scan(turn, carry, length=most_turns)
  known = episodes._replace(states=(), keys=(), kept=())
  rows = known._replace(**{name: getattr(known, name)[:-1, None] for name in OF_ROWS})
  rows = rows._replace(
      turn=known.turn[:-1], truncated=known.truncated[:-1], info={k: x[:-1] for k, x in known.info.items()}
  )
  return as_rows(
      problems['prompts'], lengths, tokens[:-1, None], jnp.zeros((num, 1, columns)), counts[:, None], rows,
      group_size=1, decoding=decoding,
  )


def as_rows(
    prompts: jax.Array, prompt_lengths: jax.Array, tokens: jax.Array, logprobs: jax.Array, counts: jax.Array,
    episodes: Episodes, *, group_size: int, decoding: Decoding,
) -> Batch:
  """Prompts and episodes joined into contiguous rows.

  Args:
    prompts: [P, Tp] int32.
    prompt_lengths: [P] int32.
    tokens: [E, K, T] int32 behind the prompt, E = P * group_size episodes of K rows.
    logprobs: [E, K, T] float32.
    counts: [E, K] int32, how many tokens there are; none in a row that was not needed.
    episodes: what is of a row as [E, K, ..], without the entries of empty slots.
    group_size: episodes a prompt.
    decoding: of the sampler.
  Returns:
    The columns of `engine.sample.sample`; `turns` of every token behind the prompt, an observation having
    that of the turn it answers, and -1 where a context was rewritten; `token_rewards` at the last token of
    each action; `anchors` and `understood` of the turn, at each of its tokens; `rewards`, the episode's sum,
    the same in all its rows, and NaN in those that were not needed; `trajectories`, the number of the
    episode; and for the metrics `turns/..` and `episode/..`, at the first row of each.
  """
  num, per_episode, room = tokens.shape
  rows = lambda x: x.reshape(num * per_episode, *x.shape[2:])
  total = jnp.where(episodes.closes, episodes.rewards, 0).sum(axis=(1, 2))
  tokens, logprobs, counts = rows(tokens), rows(logprobs), rows(counts)
  lengths = jnp.repeat(prompt_lengths, group_size * per_episode)
  number, width = jnp.arange(num * per_episode), prompts.shape[1] + room
  columns, first = jnp.arange(width)[None], number % per_episode == 0
  behind = jnp.arange(room)[None] < counts[:, None]
  heard, closes = rows(episodes.heard) & behind, rows(episodes.closes) & behind
  turn = jnp.cumsum(closes, axis=1) - closes - heard  # how many ended before; what is heard is of the last
  place = jnp.where(closes, turn, room)
  at_turn = lambda x: jnp.zeros_like(x).at[number[:, None], place].set(x, mode='drop')
  of_turn = lambda x: jnp.where(turn >= 0, at_turn(rows(x))[number[:, None], turn], 0)
  back = lambda x: window(x, -lengths, width)
  in_prompt = columns < lengths[:, None]
  prompt = jnp.pad(jnp.repeat(prompts, group_size * per_episode, axis=0), ((0, 0), (0, room)))
  valid, action_mask = back(behind), back(behind & ~heard)
  text = jnp.where(valid, back(tokens), decoding.pad_id)
  of_episode = lambda x: jnp.repeat(x, per_episode, axis=0)
  metric = lambda x: jnp.where(first, of_episode(x), jnp.nan) if per_episode > 1 else x
  turns = jnp.maximum(episodes.turn, 1).astype(jnp.float32)
  understood = (episodes.closes & episodes.understood & ~episodes.sums_up[..., None]).sum(axis=(1, 2))
  needed = counts > 0
  return {
      'tokens': jnp.where(in_prompt, prompt, text),
      'valid': valid | in_prompt,
      'action_mask': action_mask,
      'prompt_lengths': lengths,
      'turns': jnp.where(valid, back(turn), jnp.where(in_prompt, -1, 0)).astype(jnp.int32),
      'groups': number // (group_size * per_episode),
      'trajectories': number // per_episode,
      'truncated': of_episode(episodes.truncated),
      'sampler_logprobs': jnp.where(action_mask, back(logprobs), 0),
      'token_rewards': back(jnp.where(closes, rows(episodes.rewards), 0)),
      'anchors': jnp.where(valid, back(of_turn(episodes.anchors)), 0),
      'understood': valid & back(of_turn(episodes.understood).astype(bool)),
      'rewards': jnp.where(needed, of_episode(total), jnp.nan),
      'turns/mean': metric(turns),
      'turns/max': jnp.full(num * per_episode, turns.max()),
      'turns/understood': metric(jnp.minimum(understood / turns, 1.0)),
      **({'turns/rows': metric(needed.reshape(num, -1).sum(axis=1))} if per_episode > 1 else {}),
      **{f'episode/{name}': metric(x) for name, x in episodes.info.items()},
  }


def check(task: TurnTask, decoding: Decoding, turns: Turns, rewriting: Rewriting = WHOLE) -> None:
  """Raises `ValueError` where a turn and its answer do not fit the room behind the prompt."""
  room, said = decoding.max_tokens, turns.turn_tokens
  single = isinstance(turns.max_turns, int) and turns.max_turns == 1
  if not 1 <= said <= room:
    raise ValueError(
        f'turn_tokens={said}, decoding.max_tokens={room}: a turn has at least 1 token and at most the room '
        'of the episode; lower turn_tokens or raise max_tokens'
    )
  if turns.read_tokens < 1:
    raise ValueError(f'read_tokens={turns.read_tokens}: at least 1 token is read at once')
  if isinstance(turns.max_turns, int) and turns.max_turns < 1:
    raise ValueError(f'max_turns={turns.max_turns}: an episode has at least 1 turn')
  if task.observation_columns >= room and not single:
    raise ValueError(
        f'observations of up to {task.observation_columns} tokens do not fit decoding.max_tokens={room}, the '
        'room behind the prompt; raise it'
    )
  needed = room // 2 + task.observation_columns + 2 * said + 1 + rewriting.summary_tokens
  if rewriting.rows > 1 and needed > room:
    raise ValueError(
        f'a rewritten context of up to {room // 2} tokens, an observation of {task.observation_columns}, two '
        f'actions and a summary take {needed} tokens; decoding.max_tokens={room}: raise it'
    )
