"""Tables in Python: worlds of several seats, and the toolboxes of those who sit there.

A table is a class whose instance is one episode, in the order of PettingZoo's AEC: it is told what the seat
said whose turn it is, and says who is next.

    class Telephone:
      seats = ('teller', 'guesser')  # the first one speaks first

      def reset(self, **columns) -> dict[str, str]:
        '''Begins with the columns of a row; what seats read at the end of their prompts, each its own.'''

      def step(self, seat: str, text: str) -> tuple[dict[str, str], dict[str, float], str | None]:
        '''What seats read before they speak again, what they are paid, and who is next; None: all is over.'''

It runs where worlds of tools do (`toolbox.py`): in a process of its own that can be killed, each step written
to the record before it is read. A table that raises, hangs or dies is *lost*, and its episode counts for
nobody. A module of a table is imported without JAX.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import inspect
import json
import math
import sys
from typing import Any, NamedTuple

from rlx.envs.host import tools as kinds
from rlx.envs.host.calls import Call
from rlx.errors import ConfigError, above, at_least
from rlx.rollout.toolbox import FAILURES, Result, Toolbox, class_of, made_of

_STEP, _ARGUMENTS = 'step', ('seat', 'text')


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Tabletop:
  """Tables of the same seats; see `tabletop` for what is what."""

  seats: tuple[str, ...]
  box: Toolbox  # its worlds are the tables
  reset_tokens: int
  hears: str


class Stepped(NamedTuple):
  """What a table said to a text."""

  told: dict[str, str]
  rewards: dict[str, float]
  next: str | None


class TableLost(Exception):
  """A step that cannot be had; the words say why."""


def tabletop(
    *, environments: Mapping[str, Any], timeout_seconds: float, workers: int, hears: str, before: str,
    after: str, role: str, reset_tokens: int,
) -> Tabletop:
  """Tables in Python.

  Args:
    environments: name -> section of a table, or the class; where there are several, the column `environment`
      of a row says which one it is of, as for the worlds of tools. They have the same seats.
    timeout_seconds: of a step, and of `reset`.
    workers: steps that are made at the same time.
    hears: what of a seat that called its tools before it spoke to the table: 'last', the words behind the
      last result, or 'all', from its first words on, with the results between.
    before: what stands before each text that a seat is told, where prompts are texts.
    after: what stands behind it.
    role: of the message that it is, where prompts are messages.
    reset_tokens: by how many tokens what `reset` says may lengthen the prompt of a seat; 0 where it says
      nothing.
  Raises:
    ConfigError: something is no table, or does not fit.
  """
  above(0, timeout_seconds=timeout_seconds)
  at_least(1, workers=workers)
  at_least(0, reset_tokens=reset_tokens)
  if hears not in ('last', 'all'):
    raise ConfigError(f"hears={hears!r}: 'last' or 'all', the words of a seat that the table hears")
  if not environments:
    raise ConfigError('a tabletop has environments, and there are none here')
  tables = {name: made_of(name, one) for name, one in environments.items()}
  seats = {name: _seats_of(name, class_of(table)) for name, table in tables.items()}
  if len(set(seats.values())) > 1:
    raise ConfigError(f'the tables have several kinds of seats: {seats}; give them the same ones')
  step = lambda table: kinds.Tool(
      name=_STEP, function=class_of(table).step, hints=dict.fromkeys(_ARGUMENTS, str), required=_ARGUMENTS,
      is_method=True,
  )
  box = Toolbox(
      functions={}, worlds=tables, methods={name: {_STEP: step(table)} for name, table in tables.items()},
      calls=lambda text: [], timeout_seconds=timeout_seconds, max_calls=sys.maxsize, workers=workers,
      result_tokens=1, keep='head', before=before, after=after, role=role,
      reset_tokens=1,  # the desk lets it speak; how much is said is checked where prompts are made
  )
  return Tabletop(seats=seats.popitem()[1], box=box, reset_tokens=reset_tokens, hears=hears)


def toolboxes(**of_seats: Toolbox) -> dict[str, Toolbox]:
  """A toolbox for each seat that has one: seat -> section of a toolbox."""
  return of_seats


def no_tools() -> Toolbox:
  """The toolbox of a seat that has none: nothing that it says is a call."""
  return Toolbox(
      functions={}, worlds={}, methods={}, calls=lambda text: [], timeout_seconds=1.0, max_calls=1, workers=1,
      result_tokens=1, keep='head', before='', after='', role='', reset_tokens=0,
  )


def step_of(seat: str, text: str) -> list[Call]:
  """The call of a table's step."""
  return [Call(_STEP, dict(zip(_ARGUMENTS, (seat, text), strict=True)))]


def reset_texts(table: Tabletop, said: str | None) -> dict[str, str]:
  """Seat -> what it is told at first, of what a desk has of `reset`. Raises `ConfigError`."""
  texts = {} if said is None else _read(said)
  if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
    raise ConfigError(f'reset() of a table says {said[:80]!r}: seat -> text, or None')
  _check_names('reset()', texts, table.seats)
  return texts


def stepped(table: Tabletop, result: Result) -> Stepped:
  """What a table said, of what a desk has of its step.

  Raises:
    ConfigError: it is nothing that a table can say.
    TableLost: the step failed, or a reward is no finite number.
  """
  if result.kind in FAILURES:
    raise TableLost(f'step() failed ({result.kind}): {result.text.removeprefix("Error: ")}')
  value = _read(result.text)
  is_number = lambda x: isinstance(x, int | float) and not isinstance(x, bool)
  shapes = (lambda x: isinstance(x, str), is_number)
  is_whole = isinstance(value, list) and len(value) == 3 and (value[2] is None or isinstance(value[2], str))
  is_whole = is_whole and all(
      isinstance(one, dict) and all(map(fits, one.values())) for one, fits in zip(value, shapes, strict=False)
  )
  if not is_whole:
    raise ConfigError(
        f'step() of a table says {result.text[:80]!r}: it returns ({{seat: text}}, {{seat: reward}}, the '
        'next seat or None), with numbers of Python'
    )
  _check_names('step()', [*value[0], *value[1], *([] if value[2] is None else value[2:])], table.seats)
  if wrong := {seat: x for seat, x in value[1].items() if not math.isfinite(x)}:
    raise TableLost(f'step() pays {wrong}, which is no finite number')
  return Stepped(*value)


def _read(text: str) -> Any:
  try:
    return json.loads(text)
  except ValueError:
    return text  # which is then refused


def _check_names(where: str, names: Sequence[str], seats: tuple[str, ...]) -> None:
  if unknown := sorted(set(names) - set(seats)):
    raise ConfigError(f'{where} of a table names {unknown}; its seats are {list(seats)}')


def _seats_of(name: str, table: Any) -> tuple[str, ...]:
  """The seats of a class that is a table."""
  if not all(callable(getattr(table, method, None)) for method in (kinds.RESET, _STEP)):
    raise ConfigError(f'{name!r} is no table: a class with seats, reset(**columns) and step(seat, text)')
  if hasattr(table, kinds.REWARD):
    raise ConfigError(f'{name!r} has get_reward(), and a table pays in step()')
  seats = getattr(table, 'seats', None)
  words = isinstance(seats, tuple) and all(isinstance(seat, str) and seat.isidentifier() for seat in seats)
  if not (words and seats) or len(set(seats)) < len(seats):
    raise ConfigError(f'{name!r} has seats={seats!r}: a tuple of names, at least one, each once')
  if (parameters := list(inspect.signature(table.step).parameters)[1:]) != [*_ARGUMENTS]:
    raise ConfigError(f'step() of {name!r} takes {parameters}; it takes seat and text')
  return seats
