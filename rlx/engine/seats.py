"""Sampling episodes of several seats: in each phase one of them speaks, by a model of its own.

A row is one seat's view of an episode: what it was told and what it said, with keys and values of its own. In
a phase the seat first reads what it was told since it spoke last, then says an action, in a loop that ends
when the last episode has; then the world answers, and writes behind each seat's row what that seat reads
next. Nothing else passes from seat to seat, so a row depends on what the others said only through what the
world told of it.

The first seat draws by the key of its sequence, the others by keys made of it; the world's key is of its
sequence and turn, as in `engine/turns.py`, whose rows those of a single seat are, to the bit. All episodes
are in the loop at a time.
"""

from collections.abc import Mapping
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine import shards
from rlx.engine import turns as episodes_of_turns
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Episodes, Turns, world_keys
from rlx.envs.seats import SeatTask
from rlx.kernels import loops
from rlx.models.transformer import KV, Params
from rlx.types import Batch, Key, Models

_LATER = 1 << 29  # no place in a row


class Seat(NamedTuple):
  """What is known of one seat in E episodes, while they go on. T columns behind the prompt."""

  hidden: jax.Array  # [E, D], predicts its next token
  cache: KV
  counts: jax.Array  # [E] int32, tokens behind the prompt that it has read or said
  tokens: jax.Array  # [E, T] int32
  logprobs: jax.Array  # [E, T] float32
  told: jax.Array  # [E] int32, tokens up to here are there to be read
  last: jax.Array  # [E] int32, column of the last token that it said; -1 before
  owed: jax.Array  # [E] float32, what it was given before it spoke
  heard: jax.Array  # [E, T] bool, the token was told
  closes: jax.Array  # [E, T] bool, the token is the last one of an action; there are, of that turn:
  rewards: jax.Array  # [E, T] float32
  understood: jax.Array  # [E, T] bool
  anchors: jax.Array  # [E, T] int32, the state before it


class Table(NamedTuple):
  """E episodes."""

  states: Any  # [E, ...] of their worlds
  turn: jax.Array  # [E] int32, actions so far, of all seats
  over: jax.Array  # [E] bool
  truncated: jax.Array  # [E] bool, ended by a limit alone
  info: dict[str, jax.Array]  # [E] float32 each, of the last action
  seats: tuple[Seat, ...]


def sample(
    params: Mapping[str, Params],
    speakers: Mapping[str, Speaker],
    task: SeatTask,
    problems: Batch,
    key: Key,
    *,
    group_size: int,
    turns: Turns,
    sequence_ids: jax.Array | None = None,
    world_key: Key,
) -> dict[str, Batch]:
  """Episodes of problems, `group_size` of each, as rows of each seat.

  Args:
    params: seat -> parameters of its model.
    speakers: seat -> its functions. They have one decoding, whose `max_tokens` is the room behind the prompt
      of each seat.
    task: the world.
    problems: [P] of `task.sample`.
    key: the noise of the seats.
    group_size: episodes a problem; the rows of a group are consecutive.
    turns: how long an action is, and how many actions an episode has at most, those of all seats together.
    sequence_ids: [P * group_size] int32 names of the episodes, which choose their noise; 0, 1, 2, ... if not
      given.
    world_key: the noise of the worlds.
  Returns:
    seat -> a batch of B = P * group_size rows, of the columns of `engine.turns.as_rows` and `seats`. What a
    seat was given for what others said stands at the last token that it said itself; a seat that never spoke
    has no reward (NaN), but its `payoffs` [B] as all have.
  Raises:
    ValueError: something does not fit.
  """
  decoding = decoding_of(task, speakers)
  for speaker in speakers.values():
    engine.check_context(speaker.model, decoding, task.prompt_columns)
  check(task, decoding, turns)
  num = problems['prompts'].shape[0] * group_size
  ids = jnp.arange(num) if sequence_ids is None else sequence_ids
  rows = {
      'keys': jax.vmap(lambda one: jax.random.fold_in(key, one))(ids),
      'worlds': world_keys(world_key, ids),
      'problems': jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), problems),
      'max_turns': jnp.broadcast_to(jnp.asarray(turns.max_turns, jnp.int32), (num,)),
  }
  models = [speakers[seat].model for seat in task.seats]
  decode = functools.partial(_play, speakers=speakers, task=task, decoding=decoding, turns=turns)
  axes = {name: meaning for model in models for name, meaning in model.axes.items()}
  seats, truncated, info = shards.over_groups(
      decode, {seat: params[seat] for seat in task.seats}, problems['prompts'], problems['prompt_lengths'],
      rows, group_size=group_size, axes=axes, dtype=models[0].dtype,
  )
  how = {'group_size': group_size, 'decoding': decoding}
  return {
      name: _as_rows(problems, number, seats[number], truncated, info, **how)
      for number, name in enumerate(task.seats)
  }


def _play(params, prompts, prompt_lengths, given, group_size, *, speakers, task, decoding, turns):
  """What became of the episodes of a shard: its seats, without what only the loop needs."""
  parts = []
  for number, name in enumerate(task.seats):
    model, lengths = speakers[name].model, prompt_lengths[:, number]
    weights, _, _, slots = engine.open_queue(
        params[name], model, prompts[:, number], lengths,
        jnp.full(len(given['keys']), decoding.max_tokens), group_size=group_size, decoding=decoding,
        num_slots=len(given['keys']),
    )
    keys = keys_of_seat(given['keys'], number)
    parts.append((weights, model, keys, jnp.repeat(lengths, group_size), slots))
  read = [(slots.hidden, slots.cache) for *_, slots in parts]
  table = _fresh(task, given['problems'], read, decoding)
  turns = turns._replace(max_turns=given['max_turns'][0])

  def a_round(table: Table) -> Table:
    for number in task.order:
      weights, model, keys, lengths, _ = parts[number]
      begun, due = table.seats[number].told, ~table.over
      seat = _speak(weights, model, decoding, turns, keys, lengths, table.seats[number], due)
      seats = tuple(seat if i == number else one for i, one in enumerate(table.seats))
      table = table._replace(seats=seats)
      table = _answered(task, turns, decoding, given['worlds'], table, number, begun, due)
    return table

  with loops.times(decoding.max_tokens):
    table = jax.lax.while_loop(lambda table: ~jnp.all(table.over), a_round, table)
  seats = [seat._replace(hidden=(), cache=(), told=()) for seat in table.seats]
  return seats, table.truncated, table.info


def keys_of_seat(keys: jax.Array, number: int) -> jax.Array:
  """[E] keys of what a seat says: those of the sequences for the first one."""
  return keys if number == 0 else jax.vmap(lambda one: jax.random.fold_in(one, _LATER + number))(keys)


def _fresh(task, problems, read, decoding) -> Table:
  """Episodes before the first phase; `read` has what each seat made of its prompt, (hidden, cache)."""
  num = problems['prompts'].shape[0]
  states = jax.vmap(task.start)(problems)
  ask = lambda state: task.act(state, jnp.zeros(1, jnp.int32), jnp.int32(1), jax.random.key(0)).info
  info = jax.eval_shape(ask, jax.tree.map(lambda x: x[0], states))
  number, shape = jnp.zeros(num, jnp.int32), (num, decoding.max_tokens)
  none = jnp.zeros(shape, bool)
  seats = tuple(
      Seat(
          hidden=hidden, cache=cache, counts=number, tokens=jnp.zeros(shape, jnp.int32),
          logprobs=jnp.zeros(shape), told=number, last=number - 1, owed=jnp.zeros(num), heard=none,
          closes=none, rewards=jnp.zeros(shape), understood=none, anchors=jnp.zeros(shape, jnp.int32),
      )
      for hidden, cache in read
  )
  return Table(
      states=states, turn=number, over=jnp.zeros(num, bool), truncated=jnp.zeros(num, bool),
      info={name: jnp.zeros(num) for name in info}, seats=seats,
  )


def _speak(params, model, decoding, turns, keys, lengths, seat: Seat, due: jax.Array) -> Seat:
  """A seat reads what it was told and says an action, in the episodes in which it is due [E]."""
  row, room = jnp.arange(due.shape[0]), decoding.max_tokens

  def step(carry):
    seat, active = carry
    count = seat.counts
    tokens, logprobs = engine.draw_tokens(params, model, decoding, keys, seat.hidden, count)
    reading = count < seat.told
    tokens = jnp.where(reading, seat.tokens[row, jnp.minimum(count, room - 1)], tokens)
    # What others leave in the cache is behind their rows, where it is written anew before it is looked at.
    hidden, cache = model.decode_rows(params, tokens[:, None], lengths + count, seat.cache)
    end = count + 1
    stops = ~reading & (decoding.is_eos(tokens) | (end - seat.told >= turns.turn_tokens) | (end >= room))
    column = jnp.where(active, count, room)
    write = lambda array, x: array.at[row, column].set(x, mode='drop')
    seat = seat._replace(
        hidden=jnp.where(active[:, None], hidden[:, 0], seat.hidden), cache=cache,
        counts=jnp.where(active, end, count), tokens=write(seat.tokens, tokens),
        logprobs=write(seat.logprobs, jnp.where(reading, 0, logprobs)),
    )
    return seat, active & ~stops

  with loops.times(turns.turn_tokens):
    return jax.lax.while_loop(lambda carry: jnp.any(carry[1]), step, (seat, due))[0]


def _answered(task, turns, decoding, world_keys_, table: Table, speaker: int, begun, due) -> Table:
  """The table behind what a seat said, in the episodes in which it was due [E]; `begun` [E] is where."""
  said = table.seats[speaker]
  action, length = window(said.tokens, begun, turns.turn_tokens), said.counts - begun

  def ask():
    keys = jax.vmap(jax.random.fold_in)(world_keys_, table.turn)
    return jax.vmap(task.act)(table.states, action, length, keys), jax.vmap(task.state_id)(table.states)

  nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(ask))
  reply, anchor = jax.lax.cond(jnp.any(due), ask, lambda: nothing)
  ends = jnp.stack([
      seat.counts if i == speaker else seat.told for i, seat in enumerate(table.seats)], axis=1)
  full = jnp.any(ends + reply.lengths >= decoding.max_tokens, axis=1)  # one more token has to fit
  over = due & (reply.ended | (table.turn + 1 >= turns.max_turns) | full)
  keep = lambda old, new: jnp.where(due.reshape(-1, *[1] * (old.ndim - 1)), new, old)
  seats = [
      _closed(seat, reply, anchor, due) if i == speaker else seat for i, seat in enumerate(table.seats)
  ]
  seats = [_paid(seat, reply.rewards[:, i], due) for i, seat in enumerate(seats)]
  seats = [
      _told(seat, ends[:, i], reply.observations[:, i], reply.lengths[:, i], due & ~over)
      for i, seat in enumerate(seats)
  ]
  return Table(
      states=jax.tree.map(keep, table.states, reply.state), turn=table.turn + due, over=table.over | over,
      truncated=jnp.where(over, ~reply.ended, table.truncated),
      info={name: keep(x, reply.info[name].astype(jnp.float32)) for name, x in table.info.items()},
      seats=tuple(seats),
  )


def _closed(seat: Seat, reply, anchor, due) -> Seat:
  """The seat that has spoken, with the end of its action marked."""
  end = seat.counts - 1
  row = jnp.where(due, jnp.arange(due.shape[0]), due.shape[0])
  mark = lambda array, x: array.at[row, end].set(x, mode='drop')
  return seat._replace(
      last=jnp.where(due, end, seat.last), closes=mark(seat.closes, True),
      understood=mark(seat.understood, reply.understood), anchors=mark(seat.anchors, anchor),
  )


def _paid(seat: Seat, reward: jax.Array, due: jax.Array) -> Seat:
  """A reward [E] at the last token that the seat said; what came before it spoke comes with its first one."""
  speaks = seat.last >= 0
  total = jnp.where(due, reward, 0).astype(jnp.float32) + seat.owed
  row = jnp.where(speaks, jnp.arange(due.shape[0]), due.shape[0])
  return seat._replace(
      rewards=seat.rewards.at[row, seat.last].add(total, mode='drop'), owed=jnp.where(speaks, 0, total)
  )


def _told(seat: Seat, end: jax.Array, observation: jax.Array, length: jax.Array, goes_on: jax.Array) -> Seat:
  """A seat with what it reads next, behind column `end` [E]."""
  place = end[:, None] + jnp.arange(observation.shape[1])[None]
  behind = end + length
  place = jnp.where(goes_on[:, None] & (place < behind[:, None]), place, seat.tokens.shape[1])
  row = jnp.arange(end.shape[0])[:, None]
  return seat._replace(
      told=jnp.where(goes_on, behind, seat.told), heard=seat.heard.at[row, place].set(True, mode='drop'),
      tokens=seat.tokens.at[row, place].set(observation, mode='drop'),
  )


def _as_rows(problems, number: int, seat: Seat, truncated, info, *, group_size, decoding) -> Batch:
  """The rows of a seat."""
  one = lambda x: x[:, None]
  episodes = Episodes(
      states=(), keys=(), kept=(), turn=seat.closes.sum(axis=1), truncated=truncated, info=info,
      begun=(), told=(), sums_up=one(jnp.zeros_like(truncated)), heard=one(seat.heard),
      closes=one(seat.closes), rewards=one(seat.rewards), understood=one(seat.understood),
      anchors=one(seat.anchors),
  )
  spoke = seat.last >= 0
  rows = episodes_of_turns.as_rows(
      problems['prompts'][:, number], problems['prompt_lengths'][:, number], one(seat.tokens),
      one(seat.logprobs), one(jnp.where(spoke, seat.counts, 0)), episodes, group_size=group_size,
      decoding=decoding,
  )
  payoffs = jnp.where(seat.closes, seat.rewards, 0).sum(axis=1) + seat.owed
  return {**rows, 'seats': jnp.full(truncated.shape[0], number, jnp.int32), 'payoffs': payoffs}


def demonstrate(
    task: SeatTask, problems: Batch, key: Key, *, decoding: Decoding, turn_tokens: int, max_turns: int
) -> dict[str, Batch]:
  """Episodes of the world's expert at all seats, as rows of each; `sampler_logprobs` are 0.

  Args:
    task: the world.
    problems: [N] of `task.sample`; an episode each.
    key: the noise of the world and its expert.
    decoding: `max_tokens` is the room of each seat behind its prompt.
    turn_tokens: the most tokens of an action; a longer one is cut.
    max_turns: of an episode, those of all seats together.
  """
  turns = Turns(turn_tokens, max_turns)
  check(task, decoding, turns)
  num = problems['prompts'].shape[0]
  expert_key, world_key = jax.random.split(key)
  keys, worlds = (world_keys(one, jnp.arange(num)) for one in (expert_key, world_key))
  table = _fresh(task, problems, [((), ())] * len(task.seats), decoding)

  def a_round(table: Table, _) -> tuple[Table, None]:
    for number in task.order:
      begun, due = table.seats[number].told, ~table.over
      action, length = jax.vmap(task.expert)(table.states, jax.vmap(jax.random.fold_in)(keys, table.turn))
      seat = _recites(table.seats[number], action, jnp.minimum(length, turn_tokens), due)
      seats = tuple(seat if i == number else one for i, one in enumerate(table.seats))
      table = _answered(task, turns, decoding, worlds, table._replace(seats=seats), number, begun, due)
    return table, None

  table, _ = jax.lax.scan(a_round, table, length=-(-max_turns // len(task.order)))
  how = {'group_size': 1, 'decoding': decoding}
  return {
      name: _as_rows(problems, number, table.seats[number], table.truncated, table.info, **how)
      for number, name in enumerate(task.seats)
  }


def _recites(seat: Seat, action: jax.Array, length: jax.Array, due: jax.Array) -> Seat:
  """A seat that says what is put into its mouth, actions [E, A] of lengths [E], where it is due."""
  room, number = seat.tokens.shape[1], jnp.arange(action.shape[1])[None]
  end = jnp.minimum(seat.told + length, room)
  place = seat.told[:, None] + number
  place = jnp.where(due[:, None] & (number < length[:, None]), place, room)
  row = jnp.arange(due.shape[0])[:, None]
  return seat._replace(
      tokens=seat.tokens.at[row, place].set(action, mode='drop'), counts=jnp.where(due, end, seat.counts)
  )


def together(rows: Mapping[str, Batch], seats: tuple[str, ...]) -> Batch:
  """The rows of some seats as one batch; `groups` are numbered on from seat to seat."""
  parts, sizes = [rows[seat] for seat in seats], len(seats)
  if sizes == 1:
    return parts[0]
  batch = jax.tree.map(lambda *x: jnp.concatenate(x), *parts)
  num = parts[0]['groups'].shape[0]
  return {**batch, 'groups': batch['groups'] + num * (jnp.arange(sizes * num) // num)}


def decoding_of(task: SeatTask, speakers: Mapping[str, Speaker]) -> Decoding:
  """How the seats draw, all of them alike.

  Raises:
    ValueError: a seat has no speaker, a speaker has no seat, or they draw or compute in several ways.
  """
  if missing := [seat for seat in task.seats if seat not in speakers]:
    raise ValueError(f'the seats {missing} have no model; name one for each in names: {{seat: model}}')
  if unknown := sorted(set(speakers) - set(task.seats)):
    raise ValueError(f'names: the speakers {unknown} never speak; the seats are {list(task.seats)}')
  if len({speaker.model.vocab_size for speaker in speakers.values()}) > 1:
    sizes = {seat: speaker.model.vocab_size for seat, speaker in speakers.items()}
    raise ValueError(f'the seats know unlike vocabularies: {sizes} tokens; they need the same one')
  if len({jnp.dtype(speaker.model.dtype).name for speaker in speakers.values()}) > 1:
    raise ValueError('the models of the seats compute in several dtypes; give them the same one')
  decodings = {speaker.decoding for speaker in speakers.values()}
  if len(decodings) > 1:
    raise ValueError('the seats have several decodings; they draw in the same way')
  return decodings.pop()


def check(task: SeatTask, decoding: Decoding, turns: Turns) -> None:
  """Raises `ValueError` where an action and its answer do not fit the room behind the prompt."""
  room = decoding.max_tokens
  if not 1 <= turns.turn_tokens <= room:
    raise ValueError(
        f'turn_tokens={turns.turn_tokens}, decoding.max_tokens={room}: an action has at least 1 token and at '
        'most the room of a seat; lower turn_tokens or raise max_tokens'
    )
  if isinstance(turns.max_turns, int) and turns.max_turns < 1:
    raise ValueError(f'max_turns={turns.max_turns}: an episode has at least 1 action')


def seen(models: Models, task: SeatTask) -> dict[str, Params]:
  """seat -> parameters, of models that are seen under the names of the seats."""
  return {seat: models[seat] for seat in task.seats}
