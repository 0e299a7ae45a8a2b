"""Rollouts of episodes with tools in Python: a policy speaks, its calls are made, and it reads the results.

A turn ends with an end token or after `turn_tokens`. Where calls stand in what was said, they are made
(`toolbox.py`), in their order, and the results stand behind the turn as the chat template of the model writes
them, or between two strings. A turn without a call is the answer, and ends the episode, as the last words of
a world do. Other episodes go on meanwhile (`engine/host_turns.py`).

A row is an episode. Only what the policy said counts (`action_mask`), so that a reward function's completion
is that, without results. A world with `get_reward()` gives the rows their `rewards` (`of_world`).

Whoever draws such rows is Python (`HostRollout`): the step is cut there, as for rewards in Python.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
import queue
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx import processes, sharding
from rlx.data.dataset import Dataset
from rlx.engine.host_turns import Answer, Conversation, Said
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.envs.host.calls import Calls, Malformed
from rlx.envs.host.tools import OVER
from rlx.errors import ConfigError, at_least
from rlx.rollout.prompts import check_chance, check_groups, columns_of
from rlx.rollout.toolbox import FAILURES, Desk, Lost, Result, Seat, Toolbox
from rlx.types import Batch, HostRollout, Key, Models, StatefulRollout, World

_UNKNOWN = ('anchors', 'rewards', 'token_rewards', 'trajectories')  # columns that nobody fills in here
READ_TOKENS = 16  # that are read at once: one width, whoever reads
_TRIAL = 'rlx-trial'
Horizon = Callable[[jax.Array], jax.Array]  # train step [] -> the most turns of an episode []


def episodes(
    task: Dataset, policy: Speaker, toolbox: Toolbox, *, batch_size: int, group_size: int, num_slots: int,
    turn_tokens: int, max_turns: Horizon,
) -> HostRollout:
  """Draws training problems, and `group_size` episodes of each between `models['policy']` and its tools.

  Args:
    task: the data set. Its columns begin the worlds.
    policy: speaks. Its `max_tokens` is the room behind the prompt, results included.
    toolbox: what may be called.
    batch_size: rows B of the batch, one an episode.
    group_size: episodes a problem; divides `batch_size`.
    num_slots: episodes that are in the loop at a time; 0 for all.
    turn_tokens: the most tokens of a turn, its end token included.
    max_turns: the most turns of an episode, by the train step (`controllers/schedules.py`).
  Returns:
    A rollout on the host; the columns are those of `engine/turns.as_rows` without `anchors`, and `tools/..`.
  Raises:
    ConfigError: a size that does not fit, a chat template that cannot be continued, or no data set.
  """
  check_groups(batch_size, group_size)
  check_chance(policy, group_size)
  at_least(0, num_slots=num_slots)
  table = Table(task, policy, toolbox, group_size=group_size, num_slots=num_slots, turn_tokens=turn_tokens)
  num_groups = batch_size // group_size

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, drawn = task.draw({**world['task'], 'data': world['data']}, problem_key, num_groups)
    most = max(int(max_turns(world['step'])), 1)
    rows = table.sample(
        models['policy'], problems, sample_key, record=f'step_{int(world["at_step"]):08d}',
        max_turns=most,
    )
    return rows, {'task': drawn, 'step': world['step'] + 1}

  def shapes(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problems, drawn = task.draw({**world['task'], 'data': world['data']}, key, num_groups)
    return table.shapes(models['policy'], problems, key), {'task': drawn, 'step': world['step'] + 1}

  return HostRollout(
      begin=lambda key: {'task': task.begin(key), 'step': jnp.int32(0)}, draw=draw, data=task.data,
      shapes=shapes, host=table,
  )


def marked_solutions(
    task: Dataset, policy: Speaker, toolbox: Toolbox, *, batch_size: int, marks: str
) -> StatefulRollout:
  """Draws training problems with their solutions as the actions, but for what tools write into them.

  In such a solution results stand behind their calls, as in GSM8K: `<<48/2=24>>`. It is tokenised piece by
  piece and cut where sampling cuts: behind a call, and around its result.

  Args:
    task: the data set; prompts and completions are strings.
    policy: scores the rows.
    toolbox: says what stands before and behind a result.
    batch_size: rows B of the batch.
    marks: a regular expression of two groups: a call up to where a turn ends, and all that is read behind it
      (`(<<[^<>=]*=)([^<>]*>>)`).
  Raises:
    ConfigError: the rows are not of that kind, none has a call, or one is longer than what is scored.
  """
  at_least(1, batch_size=batch_size)
  if not isinstance(task, Dataset) or task.conversational or task.num_answers != 1:
    raise ConfigError("solutions with results need task.name='dataset' with prompt and completion as strings")
  pattern = re.compile(marks)
  if pattern.groups != 2:
    raise ConfigError(f'marks={marks!r} has {pattern.groups} groups: a call, and what is read behind it')
  cut = [_cut_solution(task, toolbox, pattern, row) for row in range(len(task.data['prompts']))]
  lengths = np.array([len(ids) for ids, _ in cut], np.int32)
  said = sum(int(mask.sum()) for _, mask in cut)
  if said == int((lengths - task.data['prompt_lengths']).sum()):
    raise ConfigError(f'marks={marks!r} is in none of the {len(cut)} solutions')
  if (longest := int((lengths - task.data['prompt_lengths']).max())) > policy.decoding.max_tokens:
    raise ConfigError(
        f'solutions take up to {longest} tokens, but decoding.max_tokens={policy.decoding.max_tokens} are '
        'scored; raise it'
    )
  shape = (len(cut), int(lengths.max()))
  tokens, masks = np.full(shape, task.pad_id, np.int32), np.zeros(shape, bool)
  for row, (ids, mask) in enumerate(cut):
    tokens[row, : len(ids)], masks[row, : len(ids)] = ids, mask
  return StatefulRollout(
      begin=task.begin, draw=lambda models, world, key: task.demonstrate(world, key, batch_size),
      data={**task.data, 'tokens': tokens, 'action_mask': masks, 'lengths': lengths},
  )


def _cut_solution(task: Dataset, box: Toolbox, pattern: re.Pattern, row: int) -> tuple[list[int], np.ndarray]:
  """The tokens of a row and which of them the policy is to say."""
  tokenizer, text = task.tokenizer, task.rows[row]['completion']
  ids = task.data['prompts'][row, : task.data['prompt_lengths'][row]].tolist()
  mask = [False] * len(ids)

  def append(more: list[int], is_said: bool) -> None:
    ids.extend(more)
    mask.extend([is_said] * len(more))

  column = 0
  for match in pattern.finditer(text):
    append(tokenizer.encode_between('', text[column : match.end(1)], ''), True)
    read, column = match[2], match.end(2)
    if not (read.startswith(box.before) and read.endswith(box.after)):
      raise ConfigError(
          f'row {row}: {read!r} is read behind a call, and results stand between {box.before!r} and '
          f'{box.after!r}; change before and after of the toolbox, or marks'
      )
    inside = read[len(box.before) : len(read) - len(box.after)]
    append(tokenizer.encode_between(box.before, inside, box.after), False)
  append([*tokenizer.encode_between('', text[column:], ''), tokenizer.eos_ids[0]], True)
  return ids, np.array(mask)


class Table:
  """Where episodes of a data set meet their tools: programs, a desk, and the words between them.

  Attributes:
    box: what may be called.
    timings: what the clock said of the episodes that were sampled last.
  """

  def __init__(
      self, task: Dataset, policy: Speaker, box: Toolbox, *, group_size: int, num_slots: int, turn_tokens: int
  ):
    """Nothing is compiled, and no process started.

    Args:
      task: the data set.
      policy: speaks.
      box: what may be called.
      group_size: episodes a problem.
      num_slots: as for `episodes`, like what follows.
      turn_tokens: likewise.
    Raises:
      ConfigError: as `episodes`.
    """
    check_texts(task, policy, box.role, turn_tokens)
    self._task, self.box, self._group_size = task, box, group_size
    self._policy, self._decoding = policy.model, policy.decoding
    self._conversation = Conversation(
        policy.model, policy.decoding, Turns(turn_tokens, 1, READ_TOKENS), group_size=group_size,
        num_slots=num_slots,
    )
    self._desk = Desk(box)
    self.seats = ()
    self.timings: dict[str, float] = {}
    self._messages: list[str] = []

  def keep_in(self, folder) -> None:
    """Calls are recorded in this folder."""
    self._desk.keep_in(folder)

  def box_of(self, record: str) -> Toolbox:
    """What the calls of a record were made with, whatever its name."""
    del record
    return self.box

  def heard(self) -> list[str]:
    """What went wrong since the last time of asking, in words."""
    said, self._messages = self._messages, []
    return said

  def close(self) -> None:
    """Ends the processes; the next episodes start new ones."""
    self._desk.close()

  def sample(self, params: Any, problems: Batch, key: Key, *, record: str, max_turns: int) -> Batch:
    """Episodes of problems, as NumPy arrays.

    Args:
      params: of the policy.
      problems: `prompts, prompt_lengths, rows` [P].
      key: the noise of the policy.
      record: name of the record of their calls.
      max_turns: the most turns of an episode.
    """
    self._desk.open(record)
    seats = self._seats(np.asarray(problems['rows']))
    problems = self._with_resets(problems, seats)
    here = sharding.make_mesh(data=1, fsdp=1, tensor=1)
    place = jax.sharding.NamedSharding(here, jax.sharding.PartitionSpec())
    params, asked, key = jax.device_put((params, problems, key), place)
    words = Words(self._task, self._decoding, self.box, self._desk, seats)
    with jax.set_mesh(here):
      rows = self._conversation.sample(
          params, asked['prompts'], asked['prompt_lengths'], key, words, max_turns=max_turns
      )
    words.finish()
    self._tell()
    rows = jax.device_get({**columns_of(problems, self._group_size), **rows})
    return self._completed(rows, *_columns(seats))

  def shapes(self, params: Any, problems: Batch, key: Key) -> Batch:
    """Rows of the shapes of `sample`; only ever traced."""
    prompts = jnp.pad(problems['prompts'], ((0, 0), (0, self.box.reset_tokens)))
    problems = {**problems, 'prompts': prompts}
    rows = self._conversation.shapes(params, prompts, problems['prompt_lengths'], key, ())
    rows = {**columns_of(problems, self._group_size), **rows}
    none = np.zeros(len(rows['rows']), np.float32)
    return self._completed(rows, *_columns([]), none=none)

  def _seats(self, rows: np.ndarray) -> list[Seat]:
    """A seat for each episode of these rows of the data set."""
    columns = self._task.columns(rows)
    seats = []
    for number in range(len(rows) * self._group_size):
      row = {name: values[number // self._group_size] for name, values in columns.items()}
      seats.append(Seat(number, row, self.box.world_of(row)))
    return seats

  def _with_resets(self, problems: Batch, seats: Sequence[Seat]) -> Batch:
    """The problems with what `reset` says of each at the end of its prompt."""
    if not self.box.reset_tokens:
      return problems
    firsts = seats[:: self._group_size]
    begun = [self._desk.submit(self._desk.begin, one.sequence, one.columns, one.world) for one in firsts]
    room = problems['prompts'].shape[1] + self.box.reset_tokens
    prompts = np.full((len(firsts), room), self._decoding.pad_id, np.int32)
    lengths = np.zeros(len(firsts), np.int32)
    for place, (row, future) in enumerate(zip(np.asarray(problems['rows']), begun, strict=True)):
      try:
        said = future.result()
      except Lost as error:
        raise ConfigError(f'the world of row {row} cannot be begun: {error}') from error
      ids = prompt_with(self._task, int(row), said or '')
      if len(ids) > room:
        raise ConfigError(
            f'row {row}: what reset() says makes its prompt {len(ids)} tokens long, of {room} at most; raise '
            f'reset_tokens={self.box.reset_tokens}'
        )
      prompts[place, : len(ids)], lengths[place] = ids, len(ids)
    return {**problems, 'prompts': jnp.asarray(prompts), 'prompt_lengths': jnp.asarray(lengths)}

  def _completed(self, rows: Batch, tools: Batch, lost: Any, rewards: Any, none: Any = None) -> Batch:
    """Rows with what the desk knows of them; NumPy, or traced where `none` stands for each column."""
    rows = {name: x for name, x in rows.items() if name not in _UNKNOWN}
    told = tools if none is None else dict.fromkeys(tools, none)
    rows |= told
    if self.box.worlds:
      scored = ~lost if none is None else none == 0
      rows |= {'scored': scored, 'tools/worlds_lost': (~scored).astype(np.float32)}
    if self.box.rewards:
      rows['rewards'] = rewards if none is None else none
    return rows

  def _tell(self) -> None:
    counts, messages = self._desk.counted()
    tally = self._conversation.tally
    self._messages += messages
    self.timings = {
        'rollout/waiting_share': tally.waiting_share, 'rollout/waited_seconds': tally.waited_seconds,
        'tools/seconds': counts.seconds, 'tools/called': counts.calls, 'tools/rebuilt_calls': counts.rebuilt,
        'tools/changed_answers': counts.changed, 'tools/called_again': counts.called_again,
    }


def columns_of_tools(seats: Sequence[Seat]) -> dict[str, np.ndarray]:
  """Of each episode, its calls and their failures."""
  floats = lambda values: np.array(list(values), np.float32)
  failed = {f'tools/failed_{kind}': floats(s.failures.get(kind, 0) for s in seats) for kind in FAILURES}
  return {'tools/calls': floats(seat.calls for seat in seats), **failed}


def _columns(seats: Sequence[Seat]) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
  """Of each episode: its calls and their failures, whether its world was lost, and its reward."""
  rewards = np.array([np.nan if seat.reward is None else seat.reward for seat in seats], np.float32)
  return columns_of_tools(seats), np.array([seat.is_lost for seat in seats], bool), rewards


class Words:
  """The counterpart of a policy that calls tools: reads its calls, has them made, and writes the results."""

  info = ()

  def __init__(self, task: Dataset, decoding, box: Toolbox, desk: Desk, seats: Sequence[Seat]):
    self._task, self._box, self._desk, self._seats, self._decoding = task, box, desk, seats, decoding
    self._sees_special = getattr(box.calls, 'sees_special_tokens', False)
    self._there: queue.SimpleQueue = queue.SimpleQueue()  # functions without arguments that make answers
    self._ends: list = []

  def say(self, said: Said) -> None:
    """As `Counterpart`."""
    text = self._task.decode(said.tokens)
    calls = self._box.calls(self._task.tokenizer.spelled(said.tokens) if self._sees_special else text)
    if calls:
      future = self._desk.submit(self._desk.turn, self._seats[said.sequence], said.turn, calls)
      future.add_done_callback(lambda done: self.put(said, lambda: self._written(said, calls, done)))
    elif said.is_cut and not said.is_full:  # a stop string that was no call's
      self.put(said, lambda: Answer(said.sequence, goes_on=True))
    else:
      self.without_a_call(said, text)

  def without_a_call(self, said: Said, text: str) -> None:
    """What is done with a turn that calls nothing: it is the answer."""
    del text
    over = Answer(said.sequence, ended=not said.is_cut, stops=True, understood=not said.is_cut)
    self.put(said, lambda: over)

  def put(self, said: Said, make: Callable[[], Answer]) -> None:
    """Takes a function that makes the answer to what was said, to be called by the thread of `answers`."""
    del said
    self._there.put(make)

  def answers(self, *, wait: bool) -> list[Answer]:
    """As `Counterpart`."""
    return [make() for make in taken(self._there, wait=wait)]

  def over(self, sequence: int) -> None:
    """As `Counterpart`."""
    self._ends.append(self._desk.submit(self._desk.end, self._seats[sequence]))

  def finish(self) -> None:
    """Waits for the rewards of all worlds."""
    for future in self._ends:
      future.result()

  def _written(self, said: Said, calls: Calls, done: Future) -> Answer:
    """The results of a turn as tokens behind it."""
    results, understood = done.result(), not any(isinstance(call, Malformed) for call in calls)
    if self._seats[said.sequence].is_lost:
      return Answer(said.sequence, stops=True, understood=understood)
    if results[-1].kind == OVER:
      return Answer(said.sequence, ended=True, stops=True, understood=understood)
    texts = [self._cut(said.sequence, result) for result in results]
    tokens = tokens_behind(self._task, self._box, texts, ended=not said.is_cut)
    return Answer(said.sequence, tokens, understood=understood)

  def _cut(self, sequence: int, result: Result) -> str:
    """What is read of a result."""
    tokenizer, most, head = self._task.tokenizer, self._box.result_tokens, self._box.keep == 'head'
    enough = (most + 1) * tokenizer.longest  # more characters than that are more tokens than are read
    text = result.text[:enough] if head else result.text[-enough:]
    ids = tokenizer.encode_between('', text, '')
    if len(ids) <= most and text == result.text:
      return text
    if not result.kind:
      failures = self._seats[sequence].failures
      failures['cut'] = failures.get('cut', 0) + 1
    return self._task.decode(ids[:most] if head else ids[-most:])


def taken(there: queue.SimpleQueue, *, wait: bool) -> list:
  """What is in a queue; with `wait`, at least one thing."""
  found = []
  while True:
    try:
      found.append(there.get(block=wait and not found))
    except queue.Empty:
      return found


def tokens_behind(task: Dataset, box: Toolbox, texts: Sequence[str], *, ended: bool) -> list[int]:
  """The tokens of texts that are read behind a turn, with what stands around them.

  Args:
    task: its tokenizer.
    box: says what stands around them, or of which role they are as messages.
    texts: in their order.
    ended: whether the turn has its end token; as a message it gets one otherwise, which nobody said.
  """
  if not task.conversational:
    around = lambda text: task.tokenizer.encode_between(box.before, text, box.after)
    return [token for text in texts for token in around(text)]
  return task.tokenizer.encode_answers(texts, role=box.role, ended=ended)


def prompt_with(task: Dataset, row: int, said: str) -> list[int]:
  """The tokens of the prompt of a row, with a text at the end of it, or of its last message."""
  [prompt] = task.prompts([row])
  if not task.conversational:
    return task.tokenizer.encode(prompt + said, special=True)
  messages = [dict(message) for message in prompt]
  messages[-1]['content'] = f'{messages[-1]["content"]}{said}'
  return task.tokenizer.encode_chat(messages, generation_prompt=True)[0]


def check_texts(task: Any, policy: Speaker, role: str, turn_tokens: int) -> None:
  """Raises `ConfigError` for what cannot be talked to, before anything runs."""
  if not isinstance(task, Dataset):
    raise ConfigError(
        f"tools in Python need texts of a tokenizer, so task.name='dataset'; {type(task).__name__} has none"
    )
  if processes.several():
    raise ConfigError('tools in Python are of one process; start the run alone')
  room = policy.decoding.max_tokens
  if not 1 <= turn_tokens <= room:
    raise ConfigError(
        f'turn_tokens={turn_tokens}, decoding.max_tokens={room}: a turn has at least 1 token and at most the '
        'room of the episode; lower turn_tokens or raise max_tokens'
    )
  if task.conversational:  # raises where the template cannot be continued
    task.tokenizer.encode_answers([_TRIAL], role=role, ended=True)
