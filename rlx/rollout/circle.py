"""Where episodes of several seats meet their table in Python, and seats their tools: programs, desks, words.

A text with calls goes to the desk of the seat's tools, another one to the desk of the table. What comes back
is made tokens of the seat that reads it, by the one thread that talks to JAX; `engine/host_seats.py` does the
rest. Records of a step are of the table, `step_00000012.jsonl`, and of each seat with tools,
`step_00000012.<seat>.jsonl`.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
import dataclasses
import functools
import queue

import jax
import jax.numpy as jnp
import numpy as np

from rlx import sharding
from rlx.data.dataset import Dataset
from rlx.engine import host_seats as engine
from rlx.engine import seats as seats_engine
from rlx.engine.host_seats import Reply
from rlx.engine.host_turns import Answer, Conversation, Said, Tally
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.errors import ConfigError, at_least
from rlx.rollout.host_turns import (
  READ_TOKENS,
  Words,
  check_texts,
  columns_of_tools,
  prompt_with,
  taken,
  tokens_behind,
)
from rlx.rollout.prompts import columns_of
from rlx.rollout.tabletop import TableLost, Tabletop, no_tools, reset_texts, step_of, stepped
from rlx.rollout.toolbox import Desk, Lost, Toolbox
from rlx.rollout.toolbox import Seat as AtDesk
from rlx.types import Batch, Key, Models

_COUNTED = (  # timing -> attribute of `toolbox.Counts`
    ('seconds', 'seconds'), ('called', 'calls'), ('rebuilt_calls', 'rebuilt'), ('changed_answers', 'changed'),
    ('called_again', 'called_again'),
)


class Circle:
  """Where episodes of a data set meet their table, and seats their tools: programs, desks, and words.

  Attributes:
    task: the data set.
    table: in Python.
    seats: at the table.
    group_size: episodes a problem.
    decoding: of all seats.
    boxes: seat -> what it may call.
    desk: where the table's steps are made.
    desks: seat -> where its calls are made, if it has tools.
    timings: what the clock said of the episodes that were sampled last.
  """

  def __init__(
      self, task: Dataset, speakers: Mapping[str, Speaker], table: Tabletop, toolboxes: Mapping[str, Toolbox],
      *, group_size: int, num_slots: int, turn_tokens: int,
  ):
    """Nothing is compiled, and no process started.

    Args:
      task: the data set.
      speakers: as for `host_seats.episodes`, like what follows.
      table: in Python.
      toolboxes: of seats.
      group_size: episodes a problem.
      num_slots: in the loop.
      turn_tokens: of a turn.
    Raises:
      ValueError: as `host_seats.episodes`.
    """
    at_least(0, num_slots=num_slots)
    self.decoding = seats_engine.decoding_of(table, speakers)
    _check_boxes(table, toolboxes)
    for speaker in speakers.values():
      for box in (table.box, *toolboxes.values()):
        check_texts(task, speaker, box.role, turn_tokens)
    models = {id(speaker.model): speaker.model for speaker in speakers.values()}
    turns = Turns(turn_tokens, 1, READ_TOKENS)
    programs = {
        name: Conversation(model, self.decoding, turns, group_size=group_size, num_slots=num_slots)
        for name, model in models.items()
    }
    self.task, self.table, self.seats, self.group_size = task, table, table.seats, group_size
    self._conversations = [programs[id(speakers[seat].model)] for seat in self.seats]
    self.boxes = {seat: toolboxes.get(seat, no_tools()) for seat in self.seats}
    self.desk, self.desks = Desk(table.box), {seat: Desk(box) for seat, box in toolboxes.items()}
    self.timings: dict[str, float] = {}
    self._messages: list[str] = []

  def keep_in(self, folder) -> None:
    """Calls and steps are recorded in this folder."""
    for desk in (self.desk, *self.desks.values()):
      desk.keep_in(folder)

  def box_of(self, record: str) -> Toolbox:
    """What the calls of a record were made with, by its name without `.jsonl`."""
    seat = record.partition('.')[2]
    return self.boxes[seat] if seat else self.table.box

  def heard(self) -> list[str]:
    """What went wrong since the last time of asking, in words."""
    said, self._messages = self._messages, []
    return said

  def close(self) -> None:
    """Ends the processes; the next episodes start new ones."""
    for desk in (self.desk, *self.desks.values()):
      desk.close()

  def sample(
      self, models: Models, problems: Batch, key: Key, *, record: str, max_turns: int
  ) -> dict[str, Batch]:
    """Episodes of problems, as rows of each seat in NumPy arrays.

    Args:
      models: their parameters under the names of the seats.
      problems: `prompts, prompt_lengths, rows` [P].
      key: the noise of the seats.
      record: name of the record of the table.
      max_turns: the most turns of an episode, of all seats together.
    """
    self.desk.open(record)
    for seat, desk in self.desks.items():
      desk.open(f'{record}.{seat}')
    played = self._begun(np.asarray(problems['rows']))
    prompts = self._prompts(problems, played[:: self.group_size])
    here = sharding.make_mesh(data=1, fsdp=1, tensor=1)
    place = jax.sharding.NamedSharding(here, jax.sharding.PartitionSpec())
    own = {id(models[seat]): models[seat] for seat in self.seats}
    own, prompts, key = jax.device_put((own, prompts, key), place)
    params = [own[id(models[seat])] for seat in self.seats]
    voices = Voices(self, played)
    with jax.set_mesh(here):
      rows, tally = engine.sample(
          self._conversations, params, *zip(*prompts, strict=True), key, voices, max_turns=max_turns
      )
    voices.finish()
    self._messages += voices.messages
    self._tell(tally)
    columns, lost = columns_of(problems, self.group_size), np.array([one.is_lost for one in played])
    return {
        seat: _completed(jax.device_get({**columns, **batch}), [one.own[number] for one in played], lost)
        for number, (seat, batch) in enumerate(zip(self.seats, rows, strict=True))
    }

  def shapes(self, models: Models, problems: Batch, key: Key) -> dict[str, Batch]:
    """Rows of the shapes of `sample`; only ever traced."""
    prompts = jnp.pad(problems['prompts'], ((0, 0), (0, self.table.reset_tokens)))
    params = [models[seat] for seat in self.seats]
    rows = engine.shapes(self._conversations, params, prompts, problems['prompt_lengths'], key, ())
    columns = columns_of(problems, self.group_size)
    complete = lambda batch: _completed({**columns, **batch}, [], jnp.zeros(batch['groups'].shape, bool))
    return {seat: complete(batch) for seat, batch in zip(self.seats, rows, strict=True)}

  def _begun(self, rows: np.ndarray) -> list['Played']:
    """The episodes of these rows of the data set."""
    columns, played = self.task.columns(rows), []
    for number in range(len(rows) * self.group_size):
      row = {name: values[number // self.group_size] for name, values in columns.items()}
      at_desk = lambda box, row=row, number=number: AtDesk(number, row, box.world_of(row))
      own = [at_desk(self.boxes[seat]) for seat in self.seats]
      played.append(Played(at_desk(self.table.box), own))
    return played

  def _prompts(self, problems: Batch, firsts: Sequence['Played']) -> list[tuple[jax.Array, jax.Array]]:
    """The prompts of each seat and their lengths, with what `reset` told it; `firsts` are of each problem."""
    tables = [one.table for one in firsts]
    begun = [self.desk.submit(self.desk.begin, one.sequence, one.columns, one.world) for one in tables]
    told = [_first_words(self.table, future, one) for future, one in zip(begun, tables, strict=True)]
    if not self.table.reset_tokens:
      if any(text for texts in told for text in texts.values()):
        raise ConfigError(
            'reset() of a table tells a seat something, which belongs into its prompt, and reset_tokens=0; '
            'set it to the most tokens that this takes'
        )
      return [(problems['prompts'], problems['prompt_lengths'])] * len(self.seats)
    room, rows = problems['prompts'].shape[1] + self.table.reset_tokens, np.asarray(problems['rows'])
    return [self._prompts_of(seat, rows, told, room) for seat in self.seats]

  def _prompts_of(
      self, seat: str, rows: np.ndarray, told: Sequence[Mapping[str, str]], room: int
  ) -> tuple[jax.Array, jax.Array]:
    """The prompts of one seat; `told` is of each row, by seat."""
    prompts = np.full((len(rows), room), self.decoding.pad_id, np.int32)
    lengths = np.zeros(len(rows), np.int32)
    for place, (row, texts) in enumerate(zip(rows, told, strict=True)):
      ids = prompt_with(self.task, int(row), texts.get(seat, ''))
      if len(ids) > room:
        raise ConfigError(
            f'row {row}: what reset() tells {seat!r} makes its prompt {len(ids)} tokens long, of {room} at '
            f'most; raise reset_tokens={self.table.reset_tokens}'
        )
      prompts[place, : len(ids)], lengths[place] = ids, len(ids)
    return jnp.asarray(prompts), jnp.asarray(lengths)

  def _tell(self, tally: Tally) -> None:
    of_table, messages = self.desk.counted()
    self._messages += messages
    of_tools = []
    for seat, desk in self.desks.items():
      counts, messages = desk.counted()
      of_tools.append(counts)
      self._messages += [f'{seat}: {message}' for message in messages]
    told = {'rollout/waiting_share': tally.waiting_share, 'rollout/waited_seconds': tally.waited_seconds}
    for kind, counted in (('tools', of_tools), ('tables', [of_table])):
      total = lambda attribute, counted=counted: sum(getattr(counts, attribute) for counts in counted)
      told |= {f'{kind}/{name}': total(attribute) for name, attribute in _COUNTED}
    self.timings = told


@dataclasses.dataclass
class Played:
  """What the host knows of an episode while it goes on.

  Attributes:
    table: at its desk.
    own: of each seat, at the desk of its tools.
    steps: of the table so far.
    told: of each seat, texts that it has not read yet.
    pieces: of each seat, what it said and read since the table heard it last.
    spoke: of each seat, whether the table has heard it.
    ended: of each seat, whether its last words had their end token.
  """

  table: AtDesk
  own: list[AtDesk]
  steps: int = 0
  told: list[list[str]] = dataclasses.field(init=False)
  pieces: list[list[str]] = dataclasses.field(init=False)
  spoke: list[bool] = dataclasses.field(init=False)
  ended: list[bool] = dataclasses.field(init=False)

  def __post_init__(self):
    self.told, self.pieces = ([[] for _ in self.own] for _ in range(2))
    self.spoke, self.ended = ([False] * len(self.own) for _ in range(2))

  @property
  def is_lost(self) -> bool:
    """Whether nobody knows what it was worth."""
    return self.table.is_lost or any(seat.is_lost for seat in self.own)


class Voices:
  """The company of the seats: what they say goes to their tools or to the table, and comes back in words.

  Attributes:
    messages: of tables that were lost.
  """

  info = ()

  def __init__(self, circle: Circle, played: Sequence[Played]):
    self._circle, self._played = circle, played
    self._there: queue.SimpleQueue = queue.SimpleQueue()  # functions without arguments that make replies
    self._words = [_SeatWords(circle, number, played, self) for number in range(len(circle.seats))]
    self._ends: list[Future] = []
    self.messages: list[str] = []

  def say(self, seat: int, said: Said) -> None:
    """As `Company`."""
    self._words[seat].say(said)

  def replies(self, *, wait: bool) -> list[Reply]:
    """As `Company`."""
    return [make() for make in taken(self._there, wait=wait)]

  def over(self, sequence: int) -> None:
    """As `Company`."""
    circle, one = self._circle, self._played[sequence]
    self._ends.append(circle.desk.submit(circle.desk.leave, one.table))
    for seat, own in zip(circle.seats, one.own, strict=True):
      if seat in circle.desks:
        self._ends.append(circle.desks[seat].submit(circle.desks[seat].leave, own))

  def finish(self) -> None:
    """Waits until all processes are let go."""
    for future in self._ends:
      future.result()

  def of_tools(self, seat: int, said: Said, make: Callable[[], Answer]) -> None:
    """Takes an answer of a seat's tools, made by the thread of `replies`."""
    self._there.put(lambda: self._of_tools(seat, said, make()))

  def to_table(self, seat: int, said: Said, text: str) -> None:
    """Hands a text without calls to the table."""
    circle, one = self._circle, self._played[said.sequence]
    pieces, one.pieces[seat] = [*one.pieces[seat], text], []
    text = ''.join(pieces) if circle.table.hears == 'all' else text
    future = circle.desk.submit(circle.desk.turn, one.table, one.steps, step_of(circle.seats[seat], text))
    one.steps, one.spoke[seat], one.ended[seat] = one.steps + 1, True, not said.is_cut
    future.add_done_callback(lambda done: self._there.put(lambda: self._of_table(said, done)))

  def _of_tools(self, seat: int, said: Said, answer: Answer) -> Reply:
    if answer.goes_on:
      return Reply(said.sequence, goes_on=True)
    decode = self._circle.task.decode
    self._played[said.sequence].pieces[seat] += [decode(said.tokens), decode(answer.tokens)]
    return Reply(
        said.sequence, told={seat: answer.tokens}, next=None if answer.stops else seat, ended=answer.ended,
        understood=answer.understood,
    )

  def _of_table(self, said: Said, done: Future) -> Reply:
    """What the table said, as tokens of the seat that is next; words that were cut end nothing."""
    circle, one = self._circle, self._played[said.sequence]
    [result], ended = done.result(), not said.is_cut
    if one.table.is_lost:  # the desk has said why
      return Reply(said.sequence, ended=False, understood=ended)
    try:
      told, rewards, who = stepped(circle.table, result)
    except TableLost as error:
      one.table.is_lost = True
      self.messages.append(f'the table of sequence {said.sequence} was lost: {error}')
      return Reply(said.sequence, ended=False, understood=ended)
    for seat, text in told.items():
      one.told[circle.seats.index(seat)].append(text)
    paid = {circle.seats.index(seat): reward for seat, reward in rewards.items()}
    if who is None:
      return Reply(said.sequence, rewards=paid, ended=ended, understood=ended)
    seat = circle.seats.index(who)
    tokens = {seat: self._tokens(one, seat)}
    return Reply(said.sequence, told=tokens, rewards=paid, next=seat, understood=ended)

  def _tokens(self, one: Played, seat: int) -> list[int]:
    """What a seat reads before it speaks: all that it was told since it spoke last."""
    circle = self._circle
    task, texts = circle.task, one.told[seat]
    enough = (circle.decoding.max_tokens + 1) * task.tokenizer.longest  # more than that is over the room
    texts, one.told[seat] = [text[:enough] for text in texts], []
    if not task.conversational:
      return tokens_behind(task, circle.table.box, texts, ended=one.ended[seat])
    if not (texts or one.spoke[seat]):  # its prompt ends where it is to speak
      return []
    return tokens_behind(task, circle.table.box, ['\n'.join(texts)], ended=one.ended[seat])


class _SeatWords(Words):
  """The words of one seat: what is no call goes to the table."""

  def __init__(self, circle: Circle, number: int, played: Sequence[Played], voices: Voices):
    seat = circle.seats[number]
    own, desk = [one.own[number] for one in played], circle.desks.get(seat)
    super().__init__(circle.task, circle.decoding, circle.boxes[seat], desk, own)
    self.put = functools.partial(voices.of_tools, number)
    self.without_a_call = functools.partial(voices.to_table, number)


def _first_words(table: Tabletop, future: Future, one: AtDesk) -> dict[str, str]:
  """Seat -> what `reset` tells it."""
  try:
    return reset_texts(table, future.result())
  except Lost as error:
    raise ConfigError(f'the table of sequence {one.sequence} cannot be begun: {error}') from error


def _completed(rows: Batch, own: Sequence[AtDesk], lost: jax.Array) -> Batch:
  """Rows with what the desks know of them; NumPy, or traced where nobody is at a desk (`own`)."""
  xp = np if own else jnp
  rows = {name: x for name, x in rows.items() if name != 'anchors'}
  tools = columns_of_tools(own)
  tools = tools if own else {name: jnp.zeros(lost.shape, jnp.float32) for name in tools}
  unknown = lambda x: xp.where(lost, xp.float32(np.nan), x)
  rewards = unknown(rows['rewards'])
  return {
      **rows, **tools, 'rewards': rewards, 'payoffs': unknown(rows['payoffs']), 'scored': ~xp.isnan(rewards),
      'tools/tables_lost': lost.astype(xp.float32),
  }


def _check_boxes(table: Tabletop, toolboxes: Mapping[str, Toolbox]) -> None:
  if unknown := sorted(set(toolboxes) - set(table.seats)):
    raise ConfigError(f'toolboxes has {unknown}, which are no seats; there are {list(table.seats)}')
  for seat, box in toolboxes.items():
    if box.rewards or box.reset_tokens:
      raise ConfigError(
          f'toolboxes.{seat}: the table says what a seat is told at first and what it is paid; take worlds '
          'without get_reward(), and reset_tokens=0'
      )
