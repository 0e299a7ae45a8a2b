"""Sampling episodes: sequences that speak in turns and read what a world answers, in the loop of `slots.py`.

A slot whose sequence has something to read is fed that, without a draw; the others draw. A turn ends with an
end token, or after so many tokens; then the world acts for the slots whose turn has ended, and its reply is
written behind what the sequence has, where the slot reads it. Keys and values go on: nothing is read twice.
An episode ends by its world, by the limit of turns or for want of room, and its slot takes the next one.

Read and said tokens stand in one row. The noise of a token is that of its sequence and place, as ever, and
the world's key is of its sequence and turn: neither depends on slots, neighbours or meshes.

`Episodes` holds what is known of each sequence while the loop runs; `answered` is one reply for those that
are due, whoever spoke: the policy in `sample`, the world's expert in `demonstrate`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine import slots as queues
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.slots import Slots
from rlx.envs.turns import TurnTask
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch, Key


class Turns(NamedTuple):
  """How long episodes and their turns are."""

  turn_tokens: int  # the most tokens of an action, its end token included
  max_turns: jax.Array | int  # of an episode; may be traced


class Episodes(NamedTuple):
  """N episodes, and one more, which is that of empty slots. T columns behind the prompt."""

  states: Any  # [N + 1, ...] of their worlds
  keys: jax.Array  # [N + 1] of their worlds
  turn: jax.Array  # [N + 1] int32, actions so far
  begun: jax.Array  # [N + 1] int32, where the action begins that is being said
  told: jax.Array  # [N + 1] int32, tokens up to here are there to be read
  heard: jax.Array  # [N + 1, T] bool, the token is the world's
  closes: jax.Array  # [N + 1, T] bool, the token is the last one of an action; there are, of that turn:
  rewards: jax.Array  # [N + 1, T] float32
  understood: jax.Array  # [N + 1, T] bool
  anchors: jax.Array  # [N + 1, T] int32, the state before it
  truncated: jax.Array  # [N + 1] bool, ended by a limit alone
  info: dict[str, jax.Array]  # [N + 1] float32 each, of the last turn


def world_keys(key: Key, sequence_ids: jax.Array) -> jax.Array:
  """[N] keys of the worlds of some sequences."""
  return jax.vmap(lambda sequence: jax.random.fold_in(key, sequence))(sequence_ids)


def fresh(task: TurnTask, problems: Batch, keys: jax.Array, *, columns: int) -> Episodes:
  """Episodes before their first turn.

  Args:
    task: the world.
    problems: columns [N] of `task.sample`.
    keys: [N] of their worlds.
    columns: T, the room behind the prompt, in tokens.
  """
  more = lambda x: jnp.concatenate([x, x[:1]])
  states, keys = jax.tree.map(more, jax.vmap(task.start)(problems)), more(keys)
  num = keys.shape[0]
  state = jax.tree.map(lambda x: x[0], states)
  info = jax.eval_shape(task.act, state, jnp.zeros(1, jnp.int32), jnp.int32(1), keys[0]).info
  number, none = jnp.zeros(num, jnp.int32), jnp.zeros((num, columns), bool)
  return Episodes(
      states=states, keys=keys, turn=number, begun=number, told=number, heard=none, closes=none,
      rewards=jnp.zeros((num, columns)), understood=none, anchors=jnp.zeros((num, columns), jnp.int32),
      truncated=jnp.zeros(num, bool), info={name: jnp.zeros(num) for name in info},
  )


def answered(
    task: TurnTask, turns: Turns, episodes: Episodes, tokens: jax.Array, sequence: jax.Array, end: jax.Array,
    due: jax.Array, budgets: jax.Array,
) -> tuple[Episodes, jax.Array, jax.Array]:
  """What worlds reply to those whose turn has ended.

  Args:
    task: the world.
    turns: how long episodes are.
    episodes: before.
    tokens: [N + 1, T] of all sequences; the actions are there.
    sequence: [S] in 0..N, of which the episodes are that are looked at.
    end: [S] int32, the column behind their actions.
    due: [S] bool, whose turn has ended; nothing happens to others.
    budgets: [S] int32, the room of each.
  Returns:
    The episodes, the tokens with the observations behind the actions, and [S] bool: whose episode is over.
  """
  num, columns = tokens.shape
  begun, turn = episodes.begun[sequence], episodes.turn[sequence]
  states = jax.tree.map(lambda x: x[sequence], episodes.states)
  action = window(tokens[sequence], begun, turns.turn_tokens)

  def ask():
    keys = jax.vmap(jax.random.fold_in)(episodes.keys[sequence], turn)
    return jax.vmap(task.act)(states, action, end - begun, keys), jax.vmap(task.state_id)(states)

  nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(ask))
  reply, anchor = jax.lax.cond(jnp.any(due), ask, lambda: nothing)
  # One more token, of an action, has to fit behind what is read.
  limited = (turn + 1 >= turns.max_turns) | (end + reply.length >= budgets)
  over = due & (reply.ended | limited)
  row, last = jnp.where(due, sequence, num), end - 1
  store = lambda array, x: array.at[row].set(x, mode='drop')
  mark = lambda array, x: array.at[row, last].set(x, mode='drop')
  place = end[:, None] + jnp.arange(reply.observation.shape[1])[None]
  is_read = (due & ~over)[:, None] & (place < (end + reply.length)[:, None])
  place = jnp.where(is_read, place, columns)
  read = lambda array, x: array.at[sequence[:, None], place].set(x, mode='drop')
  behind = jnp.where(over, end, end + reply.length)
  episodes = episodes._replace(
      states=jax.tree.map(store, episodes.states, reply.state),
      turn=store(episodes.turn, turn + 1),
      begun=store(episodes.begun, behind),
      told=store(episodes.told, behind),
      heard=read(episodes.heard, True),
      closes=mark(episodes.closes, True),
      rewards=mark(episodes.rewards, reply.reward.astype(jnp.float32)),
      understood=mark(episodes.understood, reply.understood),
      anchors=mark(episodes.anchors, anchor),
      truncated=store(episodes.truncated, over & ~reply.ended),
      info={name: store(x, reply.info[name].astype(jnp.float32)) for name, x in episodes.info.items()},
  )
  return episodes, read(tokens, reply.observation), over


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
  Returns:
    A batch of B = P * group_size rows of prompt_columns + max_tokens tokens; see `as_rows`.
  Raises:
    ValueError: something does not fit.
  """
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  engine.check_context(model, decoding, prompts.shape[1])
  check(task, decoding, turns)
  num_rows = prompts.shape[0] * group_size
  ids = jnp.arange(num_rows) if sequence_ids is None else sequence_ids
  repeat = lambda x: jnp.repeat(x, group_size, axis=0)
  rows = {
      'keys': jax.vmap(lambda one: jax.random.fold_in(key, one))(ids),
      'worlds': world_keys(world_key, ids),
      'problems': jax.tree.map(repeat, problems),
      'budgets': jnp.full(num_rows, decoding.max_tokens),
      'max_turns': jnp.broadcast_to(jnp.asarray(turns.max_turns, jnp.int32), (num_rows,)),
  }
  shards = engine.sharding.row_shards()
  slots = -(-(num_slots or num_rows) // shards)

  def decode(params, *, prompts, prompt_lengths, group_size, keys, worlds, problems, budgets, max_turns):
    params, bank, queue, begun = engine.open_queue(
        params, model, prompts, prompt_lengths, budgets, group_size=group_size, decoding=decoding,
        num_slots=slots,
    )
    keys = jnp.concatenate([keys, keys[:1]])  # an empty slot draws too, for nothing
    draw = lambda hidden, sequence, count: engine.draw_tokens(
        params, model, decoding, keys[sequence], hidden, count
    )
    here = turns._replace(max_turns=max_turns[0])
    episodes = fresh(task, problems, worlds, columns=decoding.max_tokens)
    hear = lambda episodes, slots, drawn: _hear(task, here, decoding, queue, episodes, slots, drawn)
    end, episodes = queues.converse(params, model, bank, queue, begun, episodes, draw, hear)
    known = episodes._replace(states=(), keys=())
    return jax.tree.map(lambda x: x[:-1], (end.tokens, end.logprobs, end.counts, known))

  out = engine.dealt_out(decode, params, model, prompts, lengths, rows, group_size=group_size)
  return as_rows(prompts, lengths, *out, group_size=group_size, decoding=decoding)


def _hear(task, turns, decoding, queue, episodes: Episodes, slots: Slots, drawn):
  """For `slots.converse`: what is there to be read, and the worlds' replies where a turn ends."""
  sequence, live = slots.sequence, slots.sequence < queue.budgets.shape[0]
  count = slots.counts[sequence]
  reading = count < episodes.told[sequence]
  tokens = jnp.where(reading, slots.tokens[sequence, count], drawn[0])
  logprobs = jnp.where(reading, 0, drawn[1])
  budgets = queue.budgets[jnp.minimum(sequence, queue.budgets.shape[0] - 1)]
  end = count + 1
  long = (end - episodes.begun[sequence] >= turns.turn_tokens) | (end >= budgets)
  due = live & ~reading & (decoding.is_eos(tokens) | long)
  so_far = slots.tokens.at[sequence, count].set(tokens)
  episodes, so_far, over = answered(task, turns, episodes, so_far, sequence, end, due, budgets)
  return (tokens, logprobs), lambda tokens: over[:, None], slots._replace(tokens=so_far), episodes


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
    episodes, tokens, done = answered(
        task, turns, episodes, tokens, sequence, end, ~over, jnp.full(num, columns)
    )
    return (episodes, tokens, counts, over | done), None

  tokens = jnp.full((num + 1, columns), decoding.pad_id, jnp.int32)
  carry = (episodes, tokens, jnp.zeros(num, jnp.int32), jnp.zeros(num, bool))
  (episodes, tokens, counts, _), _ = jax.lax.scan(turn, carry, length=most_turns)
  known = jax.tree.map(lambda x: x[:-1], episodes._replace(states=(), keys=()))
  return as_rows(
      problems['prompts'], lengths, tokens[:-1], jnp.zeros((num, columns)), counts, known, group_size=1,
      decoding=decoding,
  )


def as_rows(
    prompts: jax.Array, prompt_lengths: jax.Array, tokens: jax.Array, logprobs: jax.Array, counts: jax.Array,
    episodes: Episodes, *, group_size: int, decoding: Decoding,
) -> Batch:
  """Prompts and episodes joined into contiguous rows.

  Args:
    prompts: [P, Tp] int32.
    prompt_lengths: [P] int32.
    tokens: [B, T] int32 behind the prompt, B = P * group_size.
    logprobs: [B, T] float32.
    counts: [B] int32, how many tokens there are.
    episodes: [B] of them, without the entry of empty slots.
    group_size: rows a prompt.
    decoding: of the sampler.
  Returns:
    The columns of `engine.sample.sample`; `turns` of every token behind the prompt, an observation having
    that of the turn it answers; `token_rewards` at the last token of each action; `anchors` and `understood`
    of the turn, at each of its tokens; `rewards`, the episode's sum; `trajectories`, the number of the
    episode; and for the metrics `turns/..` and `episode/..`.
  """
  lengths = jnp.repeat(prompt_lengths, group_size)
  num_rows, width = lengths.shape[0], prompts.shape[1] + tokens.shape[1]
  behind = jnp.arange(tokens.shape[1])[None] < counts[:, None]
  heard, closes = episodes.heard & behind, episodes.closes & behind
  turn = jnp.cumsum(closes, axis=1) - closes - heard  # how many ended before; what is heard is of the last
  place = jnp.where(closes, turn, turn.shape[1])
  rows = jnp.arange(num_rows)[:, None]
  of_turn = lambda x: jnp.zeros_like(x).at[rows, place].set(x, mode='drop')[rows, turn]
  back = lambda x: window(x, -lengths, width)
  columns = jnp.arange(width)[None]
  prompt = jnp.pad(jnp.repeat(prompts, group_size, axis=0), ((0, 0), (0, tokens.shape[1])))
  valid, action_mask = back(behind), back(behind & ~heard)
  text = jnp.where(valid, back(tokens), decoding.pad_id)
  num_turns = jnp.maximum(closes.sum(axis=1), 1).astype(jnp.float32)
  return {
      'tokens': jnp.where(columns < lengths[:, None], prompt, text),
      'valid': valid | (columns < lengths[:, None]),
      'action_mask': action_mask,
      'prompt_lengths': lengths,
      'turns': jnp.where(valid, back(turn), jnp.where(columns < lengths[:, None], -1, 0)).astype(jnp.int32),
      'groups': rows[:, 0] // group_size,
      'trajectories': rows[:, 0],
      'truncated': episodes.truncated,
      'sampler_logprobs': jnp.where(action_mask, back(logprobs), 0),
      'token_rewards': back(jnp.where(closes, episodes.rewards, 0)),
      'anchors': jnp.where(valid, back(of_turn(episodes.anchors)), 0),
      'understood': valid & back(of_turn(episodes.understood)),
      'rewards': jnp.where(closes, episodes.rewards, 0).sum(axis=1),
      'turns/mean': num_turns,
      'turns/max': jnp.full(num_rows, num_turns.max()),
      'turns/understood': (closes & episodes.understood).sum(axis=1) / num_turns,
      **{f'episode/{name}': x for name, x in episodes.info.items()},
  }


def check(task: TurnTask, decoding: Decoding, turns: Turns) -> None:
  """Raises `ValueError` where a turn and its answer do not fit the room behind the prompt."""
  room, said = decoding.max_tokens, turns.turn_tokens
  if not 1 <= said <= room:
    raise ValueError(
        f'turn_tokens={said}, decoding.max_tokens={room}: a turn has at least 1 token and at most the room '
        'of the episode; lower turn_tokens or raise max_tokens'
    )
  if isinstance(turns.max_turns, int) and turns.max_turns < 1:
    raise ValueError(f'max_turns={turns.max_turns}: an episode has at least 1 turn')
  if task.observation_columns >= room and not (isinstance(turns.max_turns, int) and turns.max_turns == 1):
    raise ValueError(
        f'observations of up to {task.observation_columns} tokens do not fit decoding.max_tokens={room}, the '
        'room behind the prompt; raise it'
    )
