"""Tools and worlds in Python: what may be called, with which limits, and the desk at which calls are made.

A `Toolbox` is what a config says of them. A `Desk` makes the calls of one rollout, or of one evaluation: in
processes that can be killed at any moment (`rewards/workers.py`), some at a time, each written to the record
before anybody reads its result. A function runs in any free process; a world has one of its own while its
episode lasts.

A call that fails is answered in words, and the episode goes on (`Result.kind`):

    unknown    there is no such tool
    malformed  it is not written as the format wants
    arguments  they are missing, unknown, or not of their types
    raised     the tool raised
    timeout    no result within `timeout_seconds`; its process was killed
    died       its process died
    cut        the result was longer than `result_tokens`, and one end of it is read
    limit      the episode has had `max_calls` calls

A world whose process was killed is begun again, and its calls are made again, when the next one needs it; so
is that of an episode whose first calls were taken from a record. A world that cannot be begun again, or whose
reward cannot be had, is *lost*: nothing is learnt from its episode.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
import dataclasses
import functools
import json
from pathlib import Path
import pickle
import threading
import time
from typing import Any, NamedTuple

from ml_collections import ConfigDict

from rlx.envs.host import tools as kinds
from rlx.envs.host.calls import Call, Calls, Malformed
from rlx.envs.host.serving import Setup, prepare
from rlx.envs.host.tools import ArgumentError, Tool
from rlx.errors import ConfigError, above, at_least
from rlx.names import resolve
from rlx.rewards.workers import Session, Sessions
from rlx.rollout.calls_record import RESET_TURN, REWARD_TURN, Entry, Place, Record, digest_of

FAILURES = ('unknown', 'malformed', 'arguments', 'raised', 'timeout', 'died', 'cut', 'limit')
COLUMN = 'environment'  # of the data: which world a row is of, where there are several
_PACKAGE = 'rlx.envs.host'
_REPLIES = {'call': str, 'method': str, 'begin': str | None, 'reward': float, 'try': type(None)}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Toolbox:
  """What may be called, how it is written, and with which limits; see `toolbox` for what is what."""

  functions: Mapping[str, Tool]
  worlds: Mapping[str, Callable]
  methods: Mapping[str, Mapping[str, Tool]]  # of each world
  calls: Callable[[str], Calls]
  timeout_seconds: float
  max_calls: int
  workers: int
  result_tokens: int
  keep: str
  before: str
  after: str
  role: str
  reset_tokens: int

  def known(self, world: str) -> dict[str, Tool]:
    """The tools of an episode in a world; '' for none."""
    return {**self.functions, **(self.methods[world] if world else {})}

  @property
  def schemas(self) -> list[dict]:
    """Every tool as chat templates describe it, for a system message."""
    of_worlds = [tool for methods in self.methods.values() for tool in methods.values()]
    return [tool.schema for tool in (*self.functions.values(), *of_worlds)]

  @property
  def rewards(self) -> bool:
    """Whether worlds say what their episodes are worth."""
    return any(hasattr(class_of(world), kinds.REWARD) for world in self.worlds.values())

  def world_of(self, columns: Mapping[str, Any]) -> str:
    """The world of a row, '' for none. Raises `ConfigError` where the row does not say which."""
    if len(self.worlds) < 2:
      return next(iter(self.worlds), '')
    if columns.get(COLUMN) not in self.worlds:
      raise ConfigError(
          f'there are the worlds {sorted(self.worlds)}, and a row has {COLUMN}={columns.get(COLUMN)!r}; each '
          'row names one of them in that column'
      )
    return columns[COLUMN]


def toolbox(
    *, tools: Mapping[str, Any], environments: Mapping[str, Any], calls: Callable[[str], Calls],
    timeout_seconds: float, max_calls: int, workers: int, result_tokens: int, keep: str, before: str,
    after: str, role: str, reset_tokens: int,
) -> Toolbox:
  """Tools in Python.

  Args:
    tools: name -> section of a function with type hints and a Google docstring; its `name` is looked up below
      `rlx.envs.host` and then from the top, and the other values are bound to it. Or the function itself. Of
      a class, an instance is the function.
    environments: name -> section of a class, or the class: a world for each episode (`envs/host/tools.py`).
    calls: how a call is written, a function of `envs/host/calls.py`; or a class of such functions, made with
      the schemas of all tools (`envs/host/response_template.py`).
    timeout_seconds: for one call, for `reset` and for `get_reward`.
    max_calls: of an episode; those beyond are answered in words.
    workers: calls that are made at the same time.
    result_tokens: the most tokens of one result.
    keep: 'head' or 'tail', the end of a longer result that is read.
    before: what stands before each result, where prompts are texts and no chat template writes it.
    after: what stands behind it.
    role: of the message that a result is, where prompts are messages: 'tool', or 'user' for a template that
      does not know it.
    reset_tokens: by how many tokens what `reset` says may lengthen a prompt; 0 where it says nothing.
  Raises:
    ConfigError: something is no tool, or does not fit.
  """
  above(0, timeout_seconds=timeout_seconds)
  at_least(1, max_calls=max_calls, workers=workers, result_tokens=result_tokens)
  at_least(0, reset_tokens=reset_tokens)
  if keep not in ('head', 'tail'):
    raise ConfigError(f"keep={keep!r}: 'head' or 'tail', the end of a long result that is read")
  functions = {name: kinds.tool(name, _called(made_of(name, one))) for name, one in tools.items()}
  worlds = {name: made_of(name, one) for name, one in environments.items()}
  methods = {name: kinds.tools_of(class_of(world)) for name, world in worlds.items()}
  if not functions and not worlds:
    raise ConfigError('a toolbox has tools or environments, and both are empty here')
  for name, known in methods.items():
    if both := sorted(known.keys() & functions):
      raise ConfigError(f'{both} are functions and methods of {name!r}; a tool has one meaning')
  if len({hasattr(class_of(world), kinds.REWARD) for world in worlds.values()}) > 1:
    raise ConfigError(f'of the worlds {sorted(worlds)} some have get_reward() and some do not; all or none')
  made = Toolbox(
      functions=functions, worlds=worlds, methods=methods, calls=calls, timeout_seconds=timeout_seconds,
      max_calls=max_calls, workers=workers, result_tokens=result_tokens, keep=keep, before=before,
      after=after, role=role, reset_tokens=reset_tokens,
  )
  if isinstance(class_of(calls), type):
    made = dataclasses.replace(made, calls=calls(made.schemas))
  return made


def _encodable(text: str) -> str:
  """With U+FFFD for each half of a surrogate pair, which no tokenizer reads and no file in UTF-8 holds."""
  return text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')


def made_of(name: str, one: Any) -> Callable:
  """A function or a class, from a section or as it is."""
  if callable(one):
    return one
  if not isinstance(one, Mapping | ConfigDict) or 'name' not in one:
    raise ConfigError(f"tool {name!r} is {one!r}: a section {{'name': .., ..}}, or a function")
  function = resolve(one['name'], _PACKAGE)
  bound = {key: value for key, value in one.items() if key != 'name'}
  return functools.partial(function, **bound) if bound else function


def _called(made: Callable) -> Callable:
  """A function; of a class, whose instances are functions, such an instance."""
  return made() if isinstance(class_of(made), type) else made


def class_of(world: Any) -> Any:
  """The class of a world, without what is bound to it."""
  return world.func if isinstance(world, functools.partial) else world


class Result(NamedTuple):
  """What a call came to.

  Attributes:
    text: that the model reads.
    kind: how it failed, '' where it did not; `tools.OVER` where its world is over.
  """

  text: str
  kind: str = ''


@dataclasses.dataclass
class Seat:
  """An episode at a desk; one thread at a time has it.

  Attributes:
    sequence: its number.
    columns: of its row, for `reset`.
    world: its name, '' for none.
    calls: made so far, failures included.
    failures: kind -> how many.
    reward: of its world, None before that is known, or where there is none.
    is_lost: its world died, and cannot be had again.
    session: the process of its world, if it has one now.
    made: `(tool, arguments, seed, text)` of the calls that reached its world.
    lived: how many of these the world of the session has seen; -1 before it was begun.
    is_noted: the record says what its world is begun with.
  """

  sequence: int
  columns: Mapping[str, Any]
  world: str
  calls: int = 0
  failures: dict[str, int] = dataclasses.field(default_factory=dict)
  reward: float | None = None
  is_lost: bool = False
  session: Session | None = None
  made: list[tuple] = dataclasses.field(default_factory=list)
  lived: int = -1
  is_noted: bool = False


def seed_of(digest: str, place: Place) -> str:
  """What `random` is seeded with for a call."""
  return f'{digest}/{"/".join(map(str, place))}'


class Lost(Exception):
  """A world that cannot be begun, or whose calls cannot be made again. The words say why."""


@dataclasses.dataclass
class Counts:
  """What was done at a desk since it was asked last; no part of what is said.

  Attributes:
    calls: that were made, those of a record not.
    seconds: that they took, one after the other.
    rebuilt: calls that were made again for a world that was begun again.
    changed: those of them whose answer was another one.
    called_again: calls that were under way when the run was killed.
  """

  calls: int = 0
  seconds: float = 0.0
  rebuilt: int = 0
  changed: int = 0
  called_again: int = 0


class Desk:
  """Where calls are made. Its processes start with the first call, and end with `close`."""

  def __init__(self, box: Toolbox):
    self._box = box
    self._sessions: Sessions | None = None
    self._threads: ThreadPoolExecutor | None = None
    self._free: list[Session] = []  # processes of functions, between two calls
    self._lock = threading.Lock()
    self._folder: Path | None = None
    self._record = Record(None)
    self.counts = Counts()
    self.messages: list[str] = []  # of worlds that were lost

  def keep_in(self, folder: Path | None) -> None:
    """Records go to this folder."""
    self._folder = folder

  def open(self, name: str) -> None:
    """Before the calls of a train step, whose record has this name.

    Raises:
      ConfigError: tools or worlds do not start, or the file of that name is no record.
    """
    self._record.close()
    path = None if self._folder is None else self._folder / f'{name}.jsonl'
    self._record = Record(path)
    if self._sessions is not None:
      return
    box = self._box
    functions = {name: one.function for name, one in box.functions.items()}
    try:
      self._sessions = Sessions(prepare, Setup(functions, dict(box.worlds), box.keep))
    except ValueError as error:
      raise ConfigError(f'the tools do not start: {error}') from error
    self._threads = ThreadPoolExecutor(box.workers, thread_name_prefix='rlx-tools')
    kind, words = self._ask(trial := self._sessions.start(), ('try',))
    trial.stop()
    if kind != 'ok':
      self.close()
      raise ConfigError(f'a tool or a world does not start ({kind}): {words}')

  def submit(self, function: Callable, *arguments: Any) -> Future:
    """Runs one of the functions below in a thread."""
    return self._threads.submit(function, *arguments)

  def close(self) -> None:
    """Ends the processes; `open` starts new ones."""
    sessions, self._sessions = self._sessions, None
    if sessions is not None:
      sessions.close()
    if self._threads is not None:
      self._threads.shutdown(wait=True, cancel_futures=True)
      self._threads = None
    self._free.clear()
    self._record.close()

  # --- in threads

  def begin(self, sequence: int, columns: Mapping[str, Any], world: str) -> str | None:
    """What the `reset` of a world says; the world is let go again. Raises `Lost`."""
    seat = Seat(sequence, columns, world)
    digest = digest_of(kinds.RESET, columns)
    place = (sequence, RESET_TURN, 0)
    if (entry := self._record.take(place, digest)) is not None:
      return entry.value
    self._record.begin(place)
    try:
      said = self._begun(seat)
    finally:
      self.leave(seat)
    self._record.put(Entry(place, kinds.RESET, dict(columns), digest, '', said, world))
    return said

  def turn(self, seat: Seat, turn: int, calls: Calls) -> list[Result]:
    """The results of the calls of a turn, in their order. A world that is lost says so in `seat`."""
    results = []
    for number, call in enumerate(calls):
      result = self._one(seat, (seat.sequence, turn, number), call)
      seat.calls += 1
      results.append(result)
      if result.kind in FAILURES:
        seat.failures[result.kind] = seat.failures.get(result.kind, 0) + 1
      if seat.is_lost or result.kind == kinds.OVER:
        break
    return results

  def end(self, seat: Seat) -> None:
    """The reward of an episode that is over, where its world has one; its process is let go."""
    try:
      if seat.world and self._box.rewards and not seat.is_lost:
        seat.reward = self._reward(seat)
    except Lost as error:
      self._lose(seat, error)
    finally:
      self.leave(seat)

  def leave(self, seat: Seat) -> None:
    """Lets the process of a world go, and with it all that it knew."""
    if seat.session is not None:
      seat.session.stop()
      seat.session = None

  def _one(self, seat: Seat, place: Place, call: Call | Malformed) -> Result:
    if isinstance(call, Malformed):
      return Result(f'Error: {call.problem}.', 'malformed')
    if seat.calls >= self._box.max_calls:
      return Result(f'Error: there were {seat.calls} calls, and no more are made.', 'limit')
    known = self._box.known(seat.world)
    if call.name not in known:
      return Result(f'Error: there is no tool {call.name[:80]!r}; there are: {", ".join(known)}.', 'unknown')
    tool = known[call.name]
    try:
      arguments = tool.arguments(call.arguments)
    except ArgumentError as error:
      return Result(f'Error: {error}.', 'arguments')
    if tool.is_method:
      self._note_world(seat)
    digest = digest_of(tool.name, arguments)
    entry, seed = self._record.take(place, digest), seed_of(digest, place)
    if entry is None:
      entry = self._made(seat, place, tool, arguments, digest, seed)
      if entry is None:
        return Result('', 'died')
      self._record.put(entry)
    if tool.is_method and entry.kind not in ('timeout', 'died'):
      seat.made.append((tool.name, arguments, seed, entry.value))
    return Result(entry.value, entry.kind)

  def _made(
      self, seat: Seat, place: Place, tool: Tool, arguments: dict, digest: str, seed: str
  ) -> Entry | None:
    """A call that is made now; None where its world is lost."""
    self._record.begin(place)
    try:
      kind, text = self.make(seat, tool.name, arguments, tool.is_method, seed)
    except Lost as error:
      return self._lose(seat, error)
    return Entry(place, tool.name, arguments, digest, kind, text, seat.world if tool.is_method else '')

  def make(self, seat: Seat, tool: str, arguments: dict, is_method: bool, seed: str) -> tuple[str, str]:
    """Makes a call, whatever the record says; how it failed, or '', and the words. Raises `Lost`."""
    if is_method:
      self._live(seat)
      kind, value = self._ask(seat.session, ('method', tool, arguments, seed))
      seat.lived += kind not in ('timeout', 'died')
    else:
      kind, value = self._call(('call', tool, arguments, seed))
    if kind in FAILURES:
      return kind, f'Error: {value}.'
    return (kinds.OVER if kind == kinds.OVER else ''), value

  def _note_world(self, seat: Seat) -> None:
    """Records what the world of an episode is begun with, once."""
    if seat.is_noted:
      return
    seat.is_noted = True
    place, digest = (seat.sequence, RESET_TURN, 1), digest_of(kinds.RESET, seat.columns)
    if self._record.take(place, digest) is None:
      self._record.put(Entry(place, kinds.RESET, dict(seat.columns), digest, '', None, seat.world))

  def _reward(self, seat: Seat) -> float:
    self._note_world(seat)
    place, digest = (seat.sequence, REWARD_TURN, 0), digest_of(kinds.REWARD, [made[:2] for made in seat.made])
    if (entry := self._record.take(place, digest)) is not None:
      return entry.value
    self._record.begin(place)
    self._live(seat)
    kind, value = self._ask(seat.session, ('reward',))
    if kind != 'ok':
      raise Lost(f'get_reward() failed ({kind}): {value}')
    self._record.put(Entry(place, kinds.REWARD, {}, digest, '', value, seat.world))
    return value

  def _live(self, seat: Seat) -> None:
    """The world of a seat as its episode left it: begun, and begun again with its calls where it is gone."""
    if seat.session is None or not seat.session.is_alive:
      self._begun(seat)
    for name, arguments, seed, text in seat.made[seat.lived :]:
      kind, value = self._ask(seat.session, ('method', name, arguments, seed))
      if kind in ('timeout', 'died'):
        raise Lost(f'its calls cannot be made again: {name} {value}')
      seat.lived += 1
      with self._lock:
        self.counts.rebuilt += 1
        self.counts.changed += (f'Error: {value}.' if kind in FAILURES else value) != text

  def _begun(self, seat: Seat) -> str | None:
    """A fresh world in a process of its own; what its `reset` says."""
    seat.session, seat.lived = self._sessions.start(), -1
    seed = f'{kinds.RESET}/{digest_of(seat.world, dict(seat.columns))}'
    kind, value = self._ask(seat.session, ('begin', seat.world, dict(seat.columns), seed))
    if kind != 'ok':
      raise Lost(f'reset() failed ({kind}): {value}')
    if value is not None and not self._box.reset_tokens:
      raise ConfigError(
          f'reset() of {seat.world!r} says {value[:40]!r}, which belongs into the prompt, and '
          'reset_tokens=0; set it to the most tokens that this takes'
      )
    seat.lived = 0
    return value

  def _lose(self, seat: Seat, error: Lost) -> None:
    seat.is_lost = True
    with self._lock:
      self.messages.append(f'the world of sequence {seat.sequence} was lost: {error}')

  def _call(self, request: tuple) -> tuple[str, Any]:
    """A call of a function, in a process that is free."""
    with self._lock:
      session = self._free.pop() if self._free else None
    session = session or self._sessions.start()
    answer = self._ask(session, request)
    if session.is_alive:
      with self._lock:
        self._free.append(session)
    return answer

  def _ask(self, session: Session, request: tuple) -> tuple[str, Any]:
    """What a process replies: 'ok' or `tools.OVER` and a value, or how it failed, and words."""
    began = time.monotonic()
    reply = session.call(pickle.dumps(request), self._box.timeout_seconds)
    with self._lock:
      self.counts.calls += 1
      self.counts.seconds += time.monotonic() - began
    if reply.fault:
      return reply.fault, _encodable(reply.text)
    try:
      kind, value = json.loads(reply.data)
      if isinstance(value, _REPLIES[request[0]] if kind == 'ok' else str):
        return kind, _encodable(value) if isinstance(value, str) else value
    except (ValueError, TypeError):
      pass
    session.stop()  # the tool wrote into a file that is not its own
    return 'died', 'its answer cannot be read'

  def counted(self) -> tuple[Counts, list[str]]:
    """What was done since the last time of asking, and which worlds were lost."""
    with self._lock:
      self.counts.called_again += self._record.called_again
      self._record.called_again = 0
      found, self.counts = self.counts, Counts()
      messages, self.messages = self.messages, []
    return found, messages
