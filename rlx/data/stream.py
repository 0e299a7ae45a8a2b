"""Data sets that are larger than memory: rows are read as they are drawn, a window of them at a time.

A `Streamed` data set is a `Dataset` whose training rows stay in their files. What is kept is where each line
begins, 8 bytes a row. Since the order of rows is a function of a key (`order.py`), the rows that the next
train steps draw are known before they run: the host reads and tokenises just these, from anywhere in the
files, and hands them to the compiled step as its data. So the shuffle is that of the whole data set, nothing
is remembered but the count and the key of any data set, and a run resumes to the bit.

A row that cannot be used is found when its turn comes. With `malformed='skip'` the next one of its file that
can be used stands in for it, so that what a number means depends on the files alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import functools
import itertools
import logging
import mmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data import examples
from rlx.data.dataset import Dataset, Train, check_alike, files_of, reader
from rlx.data.examples import Encoded, Part, Text
from rlx.data.order import Mixture, drawn_rows, mixture
from rlx.data.rows import Row, Rows, checked, parse, read_rows
from rlx.data.tokenizer import Tokenizer
from rlx.types import Batch, World

_logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1 << 24  # that are searched for line ends at a time
_MAX_SKIPPED = 100  # rows behind one another


class Lines(Sequence):
  """The lines of a JSONL file by their numbers, read when they are asked for; empty ones have none."""

  def __init__(self, path: str):
    """Finds where the lines begin: one pass over the file.

    Raises:
      ValueError: it is no file of lines, or there are none.
    """
    if not path.endswith('.jsonl'):
      raise ValueError(f'{path}: only .jsonl files can be read as they go; write the rows as one')
    self.path = path
    try:
      with open(path, 'rb') as file:
        self._ends = _line_ends(file)
        self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if len(self._ends) else b''
    except OSError as error:
      raise ValueError(f'{path} cannot be read ({error.strerror})') from error
    begins = np.concatenate([[0], self._ends[:-1]])
    self._numbers = np.flatnonzero(self._ends - begins > 2)  # shorter ones hold no row
    if not len(self._numbers):
      raise ValueError(f'{path} has no rows; give it some')

  def __len__(self) -> int:
    return len(self._numbers)

  def __getitem__(self, index: int) -> Any:
    """The value of a line: a row, or a `Fault`."""
    line = self._numbers[index]
    begin = self._ends[line - 1] if line else 0
    return checked(parse(self._bytes[begin : self._ends[line]]))

  def place(self, index: int) -> str:
    """Where it stands, for messages."""
    return f'line {self._numbers[index] + 1}'


def _line_ends(file) -> np.ndarray:
  """[lines] int64, the byte behind each line."""
  found, offset, last = [], 0, b''
  while chunk := file.read(_CHUNK_BYTES):
    found.append(np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord('\n')) + offset + 1)
    offset, last = offset + len(chunk), chunk[-1:]
  if last not in (b'', b'\n'):
    found.append(np.array([offset]))
  return np.concatenate([np.zeros(0, np.int64), *found])


@dataclasses.dataclass(frozen=True, kw_only=True)
class Ready:
  """A row that can be used: as it was read, its prompt, its tokens, and its label where it has one."""

  row: Row
  text: Text
  encoded: list[Encoded]
  label: bool | None


class Reader:
  """Training rows by number, made of lines; those of the newest window are kept.

  Attributes:
    first: row 0.
  """

  def __init__(self, files: Sequence[Lines], read: Callable[..., Part], *, strict: bool):
    """Reads the first row, which tells what all of them hold.

    Args:
      files: in the order of their rows' numbers.
      read: rows -> a part, as from `dataset.reader`.
      strict: whether a row that cannot be used raises.
    """
    self._files, self._strict = tuple(files), strict
    self._first = np.cumsum([0, *(len(file) for file in files)])
    self._kept: dict[int, Ready] = {}
    self._read, self.first = read, None
    (self.first,) = self.ready([0])
    self._read = functools.partial(read, like=self.first.row)

  def ready(self, numbers: Sequence[int]) -> list[Ready]:
    """Rows by their numbers.

    Raises:
      ValueError: one cannot be used, and rows are strict, or too many behind it cannot either.
    """
    missing = [int(number) for number in dict.fromkeys(numbers) if number not in self._kept]
    for which, file in enumerate(self._files):
      first, behind = self._first[which], self._first[which + 1]
      own = [number - first for number in missing if first <= number < behind]
      self._kept |= {first + index: ready for index, ready in self._of_file(file, own)}
    return [self._kept[int(number)] for number in numbers]

  def keep(self, numbers: Sequence[int]) -> None:
    """Forgets all rows but these."""
    self._kept = {number: self._kept[number] for number in map(int, numbers) if number in self._kept}

  def _of_file(self, file: Lines, indices: Sequence[int]) -> Iterator[tuple[int, Ready]]:
    """Rows of a file, or those that stand in for them."""
    standing_in = {index: index for index in indices}  # what is tried for each
    for _ in range(_MAX_SKIPPED):
      usable = self._usable(file, sorted(set(standing_in.values())))
      yield from ((index, usable[tried]) for index, tried in standing_in.items() if tried in usable)
      left = {index: tried for index, tried in standing_in.items() if tried not in usable}
      standing_in = {index: (tried + 1) % len(file) for index, tried in left.items()}
      if not standing_in:
        return
    place = file.place(next(iter(standing_in)))
    raise ValueError(f'{file.path}, {place}: neither it nor the {_MAX_SKIPPED} rows behind it can be used')

  def _usable(self, file: Lines, indices: Sequence[int]) -> dict[int, Ready]:
    """Those rows of a file that can be used."""
    if not indices:
      return {}
    places = {file.place(index): index for index in indices}
    values = [file[index] for index in indices]
    rows = Rows(path=file.path, rows=values, places=list(places), strict=self._strict, skipped={})
    try:
      part = self._read(rows.sift(values)[0])
    except ValueError as error:
      if self._strict:
        raise
      _logger.warning(str(error))
      return {}
    if line := part.rows.report():
      _logger.warning(line)
    if self.first and type(part.texts[0]) is not type(self.first.text):
      place = f'{file.path}, {part.rows.places[0]}'
      raise ValueError(f'{place}: strings and messages are mixed; chat makes all of them messages')
    found = zip(part.rows.places, part.rows.rows, part.texts, part.encoded, part.labels, strict=True)
    return {
        places[place]: Ready(row=row, text=text, encoded=encoded, label=label)
        for place, row, text, encoded, label in found
    }


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Streamed(Dataset):
  """A data set whose training rows are read as they are drawn.

  Its `data` are W rows that are drawn one behind the other, from any place on: `first` [] is that place,
  `numbers` [W] the rows' numbers, `tasks` [W] those of their files where there are several. They are zeros
  here; `window` reads them.

  Attributes:
    window_rows: W.
    reader: of the training rows.
  """

  window_rows: int
  reader: Reader

  def window(self, world: World) -> dict[str, np.ndarray]:
    """The data of the next `window_rows` draws, from `cursor` and `order_key` of a world on."""
    numbers, tasks = _window(world['cursor'], world['order_key'], self.sources, self.window_rows)
    arrays = self._arrays(self.reader.ready(numbers))
    self.reader.keep(numbers)
    places = {'first': np.asarray(world['cursor']), 'numbers': numbers}
    return arrays | places | ({'tasks': tasks} if 'tasks' in self.data else {})

  def check(self, data: Mapping[str, np.ndarray], world: World) -> None:
    """Raises `ValueError` where more rows were drawn than the window held."""
    if (drawn := int(world['cursor']) - int(data['first'])) > self.window_rows:
      raise ValueError(
          f'task.window_rows={self.window_rows}, and a dispatch of log.steps_per_dispatch train steps draws '
          f'{drawn} rows; raise it to at least that'
      )

  @functools.cached_property
  def _names(self) -> list[str]:
    """Columns: those of the first training row and of the held-out ones."""
    held_out = [self.rows[row] for row in range(self.sources.num_rows, len(self.rows))]
    names = dict.fromkeys(itertools.chain(self.reader.first.row, *held_out))
    return [name for name in names if name != 'prompt']

  def columns(self, rows: Sequence[int]) -> dict[str, list]:
    """As `Dataset.columns`, with those that the first row lacks and one of these has."""
    read = [self.rows[row] for row in rows]
    names = [name for name in dict.fromkeys(itertools.chain(self._names, *read)) if name != 'prompt']
    return {name: [row.get(name) for row in read] for name in names}

  def _arrays(self, rows: Sequence[Ready]) -> dict[str, np.ndarray]:
    part = Part(
        rows=None, texts=[x.text for x in rows], labels=[x.label for x in rows],
        encoded=[x.encoded for x in rows],
    )
    columns = self.prompt_columns + self.answer_columns
    return examples.arrays(part, self.prompt_columns, columns, self.pad_id)

  def _next(self, world: World, num: int) -> tuple[Mapping[str, jax.Array], jax.Array, Batch, World]:
    data = world['data']
    index = world['cursor'] - data['first'] + jnp.arange(num)
    columns = {'rows': data['numbers'][index]} | ({'tasks': data['tasks'][index]} if 'tasks' in data else {})
    return data, index, columns, {'cursor': world['cursor'] + num, 'order_key': world['order_key']}


@functools.partial(jax.jit, static_argnums=(2, 3))
def _drawn(cursor: jax.Array, key: jax.Array, sources: Mixture, num: int):
  return drawn_rows(cursor + jnp.arange(num), sources, key)


def _window(cursor, key, sources: Mixture, num: int) -> tuple[np.ndarray, np.ndarray]:
  """Numbers and files [num] of the rows that are drawn from a place on."""
  return jax.device_get(_drawn(cursor, key, sources, num))


class _Rows(Sequence):
  """Something of each row by its number: of training rows as they are read, of held-out ones at hand."""

  def __init__(self, reader: Reader, num_train: int, name: str, held_out: Sequence[Any]):
    self._reader, self._num_train, self._name, self._held_out = reader, num_train, name, held_out

  def __len__(self) -> int:
    return self._num_train + len(self._held_out)

  def __getitem__(self, number: int) -> Any:
    if number >= self._num_train:
      return self._held_out[number - self._num_train]
    return getattr(self._reader.ready([number])[0], self._name)


def streamed(
    *,
    directory: str,
    train: Train,
    held_out: str,
    columns: Mapping[str, str],
    chat: bool,
    system: str,
    max_prompt_tokens: int,
    max_completion_tokens: int,
    malformed: str,
    window_rows: int,
) -> Streamed:
  """Rows of files that need not fit into memory as a task; the other arguments are those of `dataset`.

  Prompts and answers are padded to `max_prompt_tokens` and `max_completion_tokens`, since the longest is not
  known.

  Args:
    train: a `.jsonl` file, or several with their shares.
    held_out: is read at once.
    malformed: 'skip' takes the next row of the file that can be used.
    window_rows: rows that are at hand for the train steps of a dispatch, at least as many as these draw.
  Raises:
    ValueError: as `dataset`.
  """
  if window_rows < 1:
    raise ValueError(f'window_rows={window_rows}; at least 1')
  paths, shares = files_of(train)
  tokenizer, read = reader(
      directory, columns=columns, chat=chat, system=system, max_prompt_tokens=max_prompt_tokens,
      max_completion_tokens=max_completion_tokens,
  )
  files = [Lines(path) for path in paths]
  lines = Reader(files, read, strict=malformed == 'strict')
  part = read(read_rows(held_out, malformed=malformed)) if held_out else None
  return _of_reader(
      lines, tokenizer, part, mixture([len(file) for file in files], shares), window_rows=window_rows,
      shape=(max_prompt_tokens, max_completion_tokens),
  )


def _of_reader(
    lines: Reader, tokenizer: Tokenizer, held_out: Part | None, sources: Mixture, *, window_rows: int,
    shape: tuple[int, int],
) -> Streamed:
  """The data set of training rows that are read and of held-out ones; prompts and answers fit `shape`."""
  first, conversational = lines.first, isinstance(lines.first.text, list)
  if held_out:
    check_alike([('the training file', first.text), (held_out.rows.path, held_out.texts[0])])
  demonstrates = bool(first.encoded[0].action_mask.any())
  held_out_rows = held_out.rows.rows if held_out else []
  data = Streamed(
      tokenizer=tokenizer,
      conversational=conversational,
      eos_ids=tokenizer.turn_eos_ids if conversational else tokenizer.eos_ids,
      prompt_columns=shape[0],
      answer_columns=shape[1] if demonstrates else 0,
      data={},
      held_out_data=_arrays_of(held_out, tokenizer.pad_id) if held_out else None,
      sources=sources,
      rows=_Rows(lines, sources.num_rows, 'row', held_out_rows),
      texts=_Rows(lines, sources.num_rows, 'text', held_out.texts if held_out else []),
      skipped={},
      window_rows=window_rows,
      reader=lines,
  )
  template = data._arrays([first] * window_rows) | {'first': np.zeros((), np.int32)}
  template |= {'numbers': np.zeros(window_rows, np.int32)}
  template |= {'tasks': np.zeros(window_rows, np.int32)} if len(sources.sizes) > 1 else {}
  return dataclasses.replace(data, data=jax.tree.map(np.zeros_like, template))


def _arrays_of(part: Part, pad_id: int) -> dict[str, np.ndarray]:
  return examples.arrays(part, *examples.longest([part]), pad_id)
