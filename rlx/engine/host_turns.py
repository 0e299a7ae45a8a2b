"""Sampling episodes whose world is Python on the host: the slots and the reading of `turns.py`, in pieces.

A compiled piece decodes until enough slots wait for an answer, or for so many steps. Then the host takes what
was said, has it answered by whoever answers (in other threads or processes), and hands in the answers that
are there; the slots of the others go on meanwhile, and nobody waits for the slowest. Keys and values stay on
the device, and nothing is read twice.

What is said does not depend on when an answer came: the noise of a token is that of its sequence and place, a
slot that waits takes no part in a step, and what is read is read in the same widths whoever waits beside it.

Here nothing is known of texts and tools: a `Counterpart` is told actions, and replies with tokens.
"""

from collections.abc import Sequence
import dataclasses
import functools
import time
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine import sample as engine
from rlx.engine import slots as queues
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.slots import Bank, Queue, Slots
from rlx.engine.turns import Episodes, Turns, as_rows
from rlx.kernels import loops
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.types import Batch, Key

_BLOCK_STEPS = 16  # decoding steps of a piece, at most
_WAITING_SHARE = 8  # a piece ends where one slot in so many has begun to wait
_WIDTHS = 64  # what is read is padded to this times a power of two: few programs, whatever is answered


class Said(NamedTuple):
  """An action of an episode, as it is told to its counterpart."""

  sequence: int  # which episode
  turn: int  # which of its actions
  tokens: np.ndarray  # [A] int32, its end token among them where there is one
  is_cut: bool  # no end token ended it: a stop string or a limit of tokens did
  is_full: bool  # a limit of tokens did: there is no room for another one


class Answer(NamedTuple):
  """What a counterpart replies to an action."""

  sequence: int
  tokens: Sequence[int] = ()  # that are read next; nobody reads them where the episode is over
  reward: float = 0.0  # of this turn
  ended: bool = False  # the world ends the episode
  stops: bool = False  # the episode is over, ended or not: one that is not is `truncated`
  understood: bool = True
  info: dict[str, float] = {}  # of the episode so far; the names are those of `Counterpart.info`
  anchor: int = 0  # a hash of the state before the action
  goes_on: bool = False  # the turn is not over: the policy goes on speaking


class Counterpart(Protocol):
  """Who answers. Its functions are called by one thread, the one that talks to JAX."""

  info: Sequence[str]  # names of what is told of each episode

  def say(self, said: Said) -> None:
    """Takes an action, and returns at once."""

  def answers(self, *, wait: bool) -> list[Answer]:
    """The answers that are there; with `wait`, at least one of those that were asked for."""

  def over(self, sequence: int) -> None:
    """Takes note that an episode is over, by its own answer or by a limit."""


class Talk(NamedTuple):
  """What is known of N sequences while they speak, and one more, that of empty slots."""

  begun: jax.Array  # [N + 1] int32, where the action begins that is being said
  told: jax.Array  # [N + 1] int32, tokens up to here are there to be read
  waits: jax.Array  # [N + 1] bool, its action is over, and nobody has answered
  heard: jax.Array  # [N + 1] int32, what stop strings remember of its text
  idle: jax.Array  # [] int32, steps that slots did not take part in, summed over slots
  busy: jax.Array  # [] int32, those in which they did


class Fixed(NamedTuple):
  """What stays the same while episodes are sampled."""

  params: Params  # as a decoding loop reads them
  bank: Bank
  queue: Queue
  keys: jax.Array  # [N + 1]


class View(NamedTuple):
  """What the host is shown behind a piece."""

  sequence: jax.Array  # [S] int32, N for an empty slot
  waits: jax.Array  # [S] bool
  counts: jax.Array  # [S] int32, tokens behind the prompt
  actions: jax.Array  # [S, turn_tokens] int32, what was said since the turn began
  lengths: jax.Array  # [S] int32, how much of it counts


@dataclasses.dataclass
class Tally:
  """What the clock and the slots said of the episodes that were sampled last.

  Attributes:
    waiting_share: of the steps of slots that had an episode, those in which it waited for an answer.
    waited_seconds: in which nothing was decoded, for all waited.
  """

  waiting_share: float = 0.0
  waited_seconds: float = 0.0


class Conversation:
  """Episodes of a policy with a counterpart on the host; the programs are compiled once."""

  def __init__(
      self, model: LanguageModel, decoding: Decoding, turns: Turns, *, group_size: int, num_slots: int
  ):
    """Nothing is compiled yet.

    Args:
      model: functions of the policy.
      decoding: how tokens are drawn; `max_tokens` is the room behind the prompt, what is read included.
      turns: how long episodes and their turns are; `max_turns` is not looked at here.
      group_size: episodes a problem.
      num_slots: episodes in the loop at a time; 0 for all.
    """
    self._model, self.decoding, self._turns = model, decoding, turns
    self.group_size, self._num_slots = group_size, num_slots
    self._open = jax.jit(self._opened)
    self._go = jax.jit(self._gone_on, donate_argnums=1)
    self._hear = jax.jit(self._heard, donate_argnums=1)
    self._end = jax.jit(self._ended)
    self.tally = Tally()

  def sample(
      self, params: Params, prompts: jax.Array, prompt_lengths: jax.Array, key: Key, counterpart: Counterpart,
      *, max_turns: int,
  ) -> Batch:
    """Episodes of prompts [P, Tp], `group_size` of each; the columns are those of `turns.as_rows`.

    Args:
      params: of the policy.
      prompts: contiguous from column 0.
      prompt_lengths: [P] int32.
      key: the noise of the policy.
      counterpart: answers.
      max_turns: the most turns of an episode.
    """
    keys = keys_of(key, prompts.shape[0] * self.group_size)
    sitting = self.open(params, prompts, prompt_lengths, keys, max_turns=max_turns, info=counterpart.info)
    waited = 0.0
    while True:
      for said in sitting.go():
        counterpart.say(said)
      if sitting.is_over:
        break
      began, everybody = time.monotonic(), sitting.is_idle
      answers = counterpart.answers(wait=everybody)
      waited += everybody * (time.monotonic() - began)
      for sequence in sitting.hear(answers):
        counterpart.over(sequence)
    self.tally = tally_of([sitting], waited)
    return sitting.rows()

  def open(
      self, params: Params, prompts: jax.Array, prompt_lengths: jax.Array, keys: jax.Array, *, max_turns: int,
      info: Sequence[str], silent: bool = False,
  ) -> 'Sitting':
    """Episodes of prompts, before anything is said.

    Args:
      params: as for `sample`, like what is not below.
      prompts: [P, Tp].
      prompt_lengths: [P].
      keys: [P * group_size], the noise of each episode.
      max_turns: of an episode.
      info: names of what is told of each.
      silent: nothing is said before an answer came, to nothing: it is read, and then the first turn begins.
    """
    engine.check_context(self._model, self.decoding, prompts.shape[1])
    num = len(keys)
    fixed, moving = self._open(params, prompts, prompt_lengths, keys, jnp.full(num, silent))
    book = Book(num, self.decoding.max_tokens, max_turns, info, silent=silent)
    end = functools.partial(self._end, prompts, prompt_lengths)
    return Sitting(
        functools.partial(self._go, fixed), functools.partial(self._hear, fixed), end, moving, book,
        self.decoding, num,
    )

  def shapes(
      self, params: Params, prompts: jax.Array, prompt_lengths: jax.Array, key: Key, info: Sequence[str]
  ) -> Batch:
    """Rows of the shapes of `sample`, of episodes in which nothing happens; only ever traced."""
    num = prompts.shape[0] * self.group_size
    fixed, moving = self._opened(params, prompts, prompt_lengths, keys_of(key, num), jnp.zeros(num, bool))
    (slots, _), _ = self._gone_on(fixed, moving)
    known = Book(num, self.decoding.max_tokens, 1, info).episodes()
    return self._ended(prompts, prompt_lengths, slots.tokens, slots.logprobs, slots.counts, known)

  # --- compiled

  def _opened(self, params, prompts, lengths, keys, waits) -> tuple[Fixed, tuple[Slots, Talk]]:
    """The state before the first step; `waits` [N] says who waits from the start."""
    num = prompts.shape[0] * self.group_size
    params, bank, queue, slots = engine.open_queue(
        params, self._model, prompts, lengths, jnp.full(num, self.decoding.max_tokens),
        group_size=self.group_size, decoding=self.decoding, num_slots=self._num_slots or num,
    )
    zeros, zero = jnp.zeros(num + 1, jnp.int32), jnp.int32(0)
    talk = Talk(begun=zeros, told=zeros, waits=jnp.pad(waits, (0, 1)), heard=zeros, idle=zero, busy=zero)
    return Fixed(params, bank, queue, jnp.concatenate([keys, keys[:1]])), (slots, talk)

  def _gone_on(self, fixed: Fixed, moving: tuple[Slots, Talk]) -> tuple[tuple[Slots, Talk], View]:
    """Decodes until enough slots wait; what the host has to see."""
    num, waiting = fixed.queue.budgets.shape[0], lambda slots, talk: talk.waits[slots.sequence].sum()
    before, num_slots = waiting(*moving), moving[0].sequence.shape[0]
    enough = max(1, num_slots // _WAITING_SHARE)

    def is_due(carry):
      slots, talk, steps = carry
      active = jnp.any((slots.sequence < num) & ~talk.waits[slots.sequence])
      return active & (steps < _BLOCK_STEPS) & (waiting(slots, talk) - before < enough)

    def step(carry):
      return (*self._step(fixed, carry[0], carry[1]), carry[2] + 1)

    with loops.times(_BLOCK_STEPS):
      slots, talk, _ = jax.lax.while_loop(is_due, step, (*moving, jnp.int32(0)))
    begun, counts = talk.begun[slots.sequence], slots.counts[slots.sequence]
    view = View(
        sequence=slots.sequence, waits=talk.waits[slots.sequence], counts=counts, lengths=counts - begun,
        actions=window(slots.tokens[slots.sequence], begun, self._turns.turn_tokens),
    )
    return (slots, talk), view

  def _step(self, fixed: Fixed, slots: Slots, talk: Talk) -> tuple[Slots, Talk]:
    """One token of each slot that does not wait, and before that, what it has to read."""
    params, _, queue, keys = fixed
    num, sequence = queue.budgets.shape[0], slots.sequence
    draw = lambda hidden, sequence, count: engine.draw_tokens(
        params, self._model, self.decoding, keys[sequence], hidden, count
    )
    live, held = sequence < num, talk.waits[sequence]
    if self._turns.read_tokens > 1:
      pending = jnp.where(live & ~held, talk.told[sequence] - slots.counts[sequence], 0)
      slots = queues.read_ahead(
          params, self._model, queue, slots, pending, num_tokens=self._turns.read_tokens
      )
    count, drawn = slots.counts[sequence], queues.newest(slots, draw)
    reading = count < talk.told[sequence]
    tokens = jnp.where(reading, slots.tokens[sequence, count], drawn[0])
    logprobs = jnp.where(reading, 0, drawn[1])
    end = count + 1
    long = end - talk.begun[sequence] >= self._turns.turn_tokens
    long |= end >= self.decoding.max_tokens
    heard, ended = self.decoding.follow(talk.heard[sequence], tokens)
    heard = jnp.where(reading | ended, 0, heard)  # strings are those of one turn
    due = live & ~held & ~reading & (ended | long)
    # Nothing ends here: it is the host that says so.
    slots, _ = queues.advance(
        params, self._model, queue._replace(budgets=queue.budgets + 1), slots, (tokens, logprobs),
        jnp.zeros((sequence.shape[0], 0), jnp.int32), draw, lambda tokens: jnp.zeros(tokens.shape, bool),
        held=held,
    )
    return slots, talk._replace(
        waits=talk.waits.at[sequence].max(due),
        heard=talk.heard.at[sequence].set(jnp.where(held, talk.heard[sequence], heard)),
        idle=talk.idle + (live & held).sum(dtype=jnp.int32),
        busy=talk.busy + (live & ~held).sum(dtype=jnp.int32),
    )

  def _heard(self, fixed: Fixed, moving, rows, tokens, lengths, finished, same_turn) -> tuple[Slots, Talk]:
    """The state behind answers; arrays as `Book.told` makes them."""
    slots, talk = moving
    num = fixed.queue.budgets.shape[0]
    count, offset = slots.counts[rows], jnp.arange(tokens.shape[1])[None]
    place = jnp.where(offset < lengths[:, None], count[:, None] + offset, slots.tokens.shape[1])
    behind = count + lengths
    is_over = jnp.zeros(num + 1, bool).at[rows].max(finished)
    slots = slots._replace(
        tokens=slots.tokens.at[rows[:, None], place].set(tokens, mode='drop'),
        sequence=jnp.where(is_over[slots.sequence], num, slots.sequence), ended=slots.ended | is_over,
    )
    talk = talk._replace(
        begun=talk.begun.at[rows].set(jnp.where(same_turn, talk.begun[rows], behind)),
        told=talk.told.at[rows].set(behind), waits=talk.waits.at[rows].set(False),
    )
    return queues.refill(slots, fixed.bank, fixed.queue), talk

  def _ended(self, prompts, lengths, tokens, logprobs, counts, known: Episodes) -> Batch:
    one = lambda x: x[:-1, None]
    return as_rows(
        prompts, lengths, one(tokens), one(logprobs), one(counts), known, group_size=self.group_size,
        decoding=self.decoding,
    )


class Sitting:
  """Episodes of one speaker while they go on, piece by piece; made by `Conversation.open`.

  Attributes:
    is_idle: nothing is said before somebody answers.
    is_over: no episode is left.
  """

  def __init__(self, go, hear, end, moving: tuple[Slots, Talk], book: 'Book', decoding: Decoding, num: int):
    self._programs, self._moving, self._book = (go, hear, end), moving, book
    self._decoding, self._num, self._num_slots = decoding, num, moving[0].sequence.shape[0]
    self.is_idle = self.is_over = False

  def go(self) -> list[Said]:
    """Decodes a piece; the actions that ended in it."""
    self._moving, view = self._programs[0](self._moving)
    view = jax.device_get(view)
    live = view.sequence < self._num
    self.is_over, self.is_idle = not live.any(), bool(view.waits[live].all())
    asked = [self._book.asked(view, slot, self._decoding) for slot in np.flatnonzero(live & view.waits)]
    return [said for said in asked if said]

  def hear(self, answers: Sequence[Answer]) -> list[int]:
    """Takes answers, at most one of each episode that waits; the episodes that are over with it."""
    if not answers:
      return []
    arrays = self._book.told(answers, self._num_slots)
    self._moving, self.is_idle = self._programs[1](self._moving, *arrays), False
    return [int(sequence) for sequence in arrays[0][arrays[3]]]

  def end_of(self, sequence: int) -> int:
    """How many tokens an episode has behind its prompt; it waits."""
    return self._book.end_of(sequence)

  def rows(self) -> Batch:
    """The rows, when all is over."""
    slots, _ = self._moving
    return self._programs[2](slots.tokens, slots.logprobs, slots.counts, self._book.episodes())

  def steps(self) -> tuple[int, int]:
    """Of the steps of slots, those in which an episode waited, and those in which it went on."""
    idle, busy = jax.device_get((self._moving[1].idle, self._moving[1].busy))
    return int(idle), int(busy)


def tally_of(sittings: Sequence[Sitting], waited_seconds: float) -> Tally:
  """What is to be told of sittings that were in the loop together."""
  idle, busy = np.sum([sitting.steps() for sitting in sittings], axis=0)
  return Tally(int(idle) / max(int(idle + busy), 1), waited_seconds)


def keys_of(key: Key, num: int) -> jax.Array:
  """[N] keys of as many episodes."""
  return jax.vmap(functools.partial(jax.random.fold_in, key))(jnp.arange(num))


class Book:
  """What the host knows of N episodes of T columns behind their prompts."""

  def __init__(
      self, num: int, columns: int, max_turns: int, info: Sequence[str], *, silent: bool = False
  ):
    """Nothing was said yet.

    Args:
      num: N.
      columns: T.
      max_turns: of an episode.
      info: names of what is told of each.
      silent: the first answer is one to nothing.
    """
    self._columns, self._max_turns = columns, max_turns
    self._silent = set(range(num)) if silent else set()
    # Where the action ends, of those that wait for an answer.
    self._ends: dict[int, int] = dict.fromkeys(self._silent, 0)
    flags, numbers = np.zeros((num, columns), bool), np.zeros((num, columns), np.float32)
    self._heard, self._closes, self._understood = flags, flags.copy(), flags.copy()
    self._rewards, self._anchors = numbers, numbers.astype(np.int32)
    self._turn, self._truncated = np.zeros(num, np.int32), np.zeros(num, bool)
    self._info = {name: np.zeros(num, np.float32) for name in info}

  def asked(self, view: View, slot: int, decoding: Decoding) -> Said | None:
    """The action of a slot that waits; None where it has been told before."""
    sequence, end = int(view.sequence[slot]), int(view.counts[slot])
    if sequence in self._ends:
      return None
    self._ends[sequence] = end
    tokens = view.actions[slot, : view.lengths[slot]]
    return Said(
        sequence, int(self._turn[sequence]), tokens, is_cut=tokens[-1] not in decoding.eos_ids,
        is_full=len(tokens) == view.actions.shape[1] or end == self._columns,
    )

  def end_of(self, sequence: int) -> int:
    """Where the action of an episode ends that waits for an answer."""
    return self._ends[sequence]

  def told(self, answers: Sequence[Answer], num_slots: int) -> tuple[np.ndarray, ...]:
    """Enters answers, and makes arrays of them for `Conversation`: sequences [S] (N for none), what they read
    [S, O] and how much [S], whether they are over, and whether their turn goes on."""
    num, longest = len(self._turn), max(len(answer.tokens) for answer in answers)
    width = _WIDTHS
    while width < longest:
      width *= 2
    rows, lengths = np.full(num_slots, num, np.int32), np.zeros(num_slots, np.int32)
    tokens = np.zeros((num_slots, width), np.int32)
    finished, same_turn = np.zeros(num_slots, bool), np.zeros(num_slots, bool)
    for place, answer in enumerate(answers):
      rows[place], same_turn[place] = answer.sequence, answer.goes_on
      finished[place] = self._enter(answer)
      if not finished[place]:
        lengths[place] = len(answer.tokens)
        tokens[place, : lengths[place]] = answer.tokens
    return rows, tokens, lengths, finished, same_turn

  def _enter(self, answer: Answer) -> bool:
    """What one answer says of its episode; whether that is over."""
    row, end = answer.sequence, self._ends.pop(answer.sequence)
    stops = answer.ended or answer.stops
    is_to_nothing = row in self._silent
    self._silent.discard(row)
    if not (answer.goes_on or is_to_nothing):
      self._closes[row, end - 1], self._rewards[row, end - 1] = True, answer.reward
      self._understood[row, end - 1], self._anchors[row, end - 1] = answer.understood, answer.anchor
      self._turn[row] += 1
      stops |= bool(self._turn[row] >= self._max_turns)
    for name, value in answer.info.items():
      self._info[name][row] = value
    behind = end + len(answer.tokens)
    finished = stops or behind >= self._columns  # one more token, of an action, has to fit
    self._truncated[row] = finished and not answer.ended
    if not finished:
      self._heard[row, end:behind] = True
    return finished

  def episodes(self) -> Episodes:
    """For `turns.as_rows`."""
    one = lambda x: x[:, None]
    row = np.zeros((len(self._turn), 1), np.int32)
    return Episodes(
        states=(), keys=(), turn=self._turn, truncated=self._truncated, info=self._info, kept=(), begun=row,
        told=row, sums_up=row.astype(bool), heard=one(self._heard), closes=one(self._closes),
        rewards=one(self._rewards), understood=one(self._understood), anchors=one(self._anchors),
    )
