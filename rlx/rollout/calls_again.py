"""A record of calls, run again without a model: do its tools still say what they said?"""

from collections.abc import Sequence
import contextlib
from typing import Any, NamedTuple

from rlx.envs.host import tools as kinds
from rlx.errors import ConfigError
from rlx.rollout.calls_record import RESET_TURN, REWARD_TURN, Entry, digest_of
from rlx.rollout.toolbox import Desk, Lost, Seat, Toolbox, seed_of


class Again(NamedTuple):
  """A recorded call, and what it says now."""

  entry: Entry
  kind: str  # of the failure, or ''
  value: Any

  @property
  def is_same(self) -> bool:
    """Whether it is what it was."""
    return (self.kind, self.value) == (self.entry.kind, self.entry.value)


def again(box: Toolbox, entries: Sequence[Entry]) -> list[Again]:
  """Makes recorded calls again, each sequence in its order.

  Args:
    box: of the run.
    entries: of one record.
  Raises:
    ConfigError: the digest of a call is not that of what it called, or the tools do not start.
  """
  for entry in entries:
    if entry.place[1] != REWARD_TURN and entry.digest != digest_of(entry.tool, entry.arguments):
      raise ConfigError(
          f'the record says the digest {entry.digest} of {entry.tool} with {str(entry.arguments)[:80]}, '
          f'which is {digest_of(entry.tool, entry.arguments)}: it was changed, or is of another version'
      )
  columns = {entry.place[0]: entry for entry in entries if entry.place[1:] == (RESET_TURN, 1)}
  order = lambda entry: (entry.place[0], entry.place[1] == REWARD_TURN, entry.place)
  found: list[Again] = []
  with contextlib.closing(Desk(box)) as desk:
    desk.open('again')
    seats: dict[int, Seat] = {}
    for entry in sorted((x for x in entries if x.place[1] != RESET_TURN), key=order):
      sequence = entry.place[0]
      if sequence not in seats:
        for seat in seats.values():  # sequences come one after the other
          desk.leave(seat)
        begun = columns.get(sequence)
        seats[sequence] = Seat(sequence, begun.arguments if begun else {}, begun.world if begun else '')
      found.append(_one(desk, seats[sequence], entry))
    for seat in seats.values():
      desk.leave(seat)
  return found


def _one(desk: Desk, seat: Seat, entry: Entry) -> Again:
  if entry.tool == kinds.REWARD:
    desk.end(seat)
    return Again(entry, '' if not seat.is_lost else 'died', seat.reward)
  try:
    seed = seed_of(entry.digest, entry.place)
    kind, value = desk.make(seat, entry.tool, entry.arguments, bool(entry.world), seed)
  except Lost as error:
    kind, value = 'died', str(error)
  return Again(entry, kind, value)
