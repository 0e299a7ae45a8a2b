"""The record of calls: each call of a train step and its result, written before the result is read.

A file a step, `calls/<stage>/step_00000012.jsonl`, a line a call, under the number of its sequence, its turn
and its place in the turn, with a digest of the tool's name and arguments. A step that begins again, after a
kill, takes results from there in place of calling: a step whose calls are all recorded repeats to the bit
with any tool. A call that was under way has a line that says so and none with a result: it is made again, and
counted. The last line is dropped where it was torn.

A call that the record has with another digest is refused: the run is no longer the one that was recorded.

A record survives what kills the process (the system has the line); what kills the machine may take lines.
"""

from collections.abc import Iterator, Mapping
import json
from pathlib import Path
import threading
from typing import Any, NamedTuple

import xxhash

from rlx.errors import ConfigError

Place = tuple[int, int, int]  # sequence, turn, place in the turn

RESET_TURN, REWARD_TURN = -1, -2  # turns of what begins and ends a world


class Entry(NamedTuple):
  """A call that has its result."""

  place: Place
  tool: str
  arguments: Any  # as JSON has them
  digest: str
  kind: str  # of the failure, or ''
  value: Any  # a text, or the reward of a world; of a reset, text or None
  world: str = ''  # which world it was of; '' for a function


def calls_folder(workdir: Path, of: str) -> Path:
  """The folder of a run for the records of a stage, or of an evaluation."""
  return workdir / 'calls' / of


def digest_of(tool: str, arguments: Any) -> str:
  """16 hexadecimal digits, of what is called with what."""
  text = json.dumps([tool, arguments], sort_keys=True, default=repr)
  return xxhash.xxh3_64_hexdigest(text.encode())


class Record:
  """The calls of one step; several threads may use it."""

  def __init__(self, path: Path | None):
    """Reads what is there.

    Args:
      path: of the file; None keeps nothing, as in a notebook.
    Raises:
      ConfigError: the file is no record.
    """
    self._path, self._lock, self._file = path, threading.Lock(), None
    self._found: dict[Place, Entry] = {}
    self._begun: set[Place] = set()
    self.called_again = 0
    if path is not None and path.exists():
      for line in _lines(path):
        place = tuple(line['place'])
        if 'value' in line:
          self._found[place] = _entry(line)
        else:
          self._begun.add(place)

  def take(self, place: Place, digest: str) -> Entry | None:
    """The recorded call of a place; None where there is none, and it has to be made.

    Raises:
      ConfigError: what is called there now is something else.
    """
    with self._lock:
      entry = self._found.get(place)
      if entry is not None and entry.digest != digest:
        sequence, turn, number = place
        raise ConfigError(
            f'{self._path}: sequence {sequence}, turn {turn}, call {number} is recorded as {entry.tool} with '
            f'digest {entry.digest}, and is {digest} now: the model says something else than when it was '
            'recorded (other code, libraries, devices or weights); put these back, or delete this file and '
            'those of later steps to call anew'
        )
      return entry

  def begin(self, place: Place) -> None:
    """Notes that a call is under way."""
    with self._lock:
      self.called_again += place in self._begun
      self._write({'place': place})

  def put(self, entry: Entry) -> None:
    """Writes a call with its result."""
    with self._lock:
      self._write(entry._asdict())

  def close(self) -> None:
    """Closes the file; the next line opens it again."""
    with self._lock:
      if self._file is not None:
        self._file.close()
        self._file = None

  def _write(self, line: Mapping[str, Any]) -> None:
    if self._path is None:
      return
    if self._file is None:
      self._path.parent.mkdir(parents=True, exist_ok=True)
      _drop_torn(self._path)
      self._file = self._path.open('ab', buffering=0)
    self._file.write(json.dumps(line, default=repr).encode() + b'\n')


def read(path: Path) -> list[Entry]:
  """The calls of a record that have a result, in the order in which they were written.

  Raises:
    ConfigError: it is no record.
  """
  return [_entry(line) for line in _lines(path) if 'value' in line]


def _entry(line: Mapping[str, Any]) -> Entry:
  return Entry(**{**line, 'place': tuple(line['place'])})


def _lines(path: Path) -> Iterator[dict]:
  """What the whole lines of a record say; one that was torn is not whole."""
  *whole, _ = path.read_bytes().split(b'\n')
  for number, line in enumerate(whole, start=1):
    try:
      value = json.loads(line)
      tuple(value['place'])
    except (ValueError, KeyError, TypeError) as error:
      raise ConfigError(
          f'{path}, line {number}, is no record of a call ({error}); delete the file to call anew'
      ) from error
    yield value


def _drop_torn(path: Path) -> None:
  if path.exists():
    data = path.read_bytes()
    with path.open('r+b') as file:
      file.truncate(data.rfind(b'\n') + 1)
