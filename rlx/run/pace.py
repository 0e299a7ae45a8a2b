"""How long a run still takes: by the clock, stage by stage, with what is compiled left out."""

from collections.abc import Callable, Iterator, Sequence
import contextlib
import time

import jax

_COMPILED = '/jax/core/compile/backend_compile_duration'
_LITTLE = 0.05  # of a lap


@contextlib.contextmanager
def compilation() -> Iterator[Callable[[], float]]:
  """How many seconds were spent on compiling so far, of whatever in this process."""
  spent = [0.0]

  def hear(event: str, seconds: float, **kwargs) -> None:
    del kwargs
    spent[0] += seconds if event == _COMPILED else 0.0

  jax.monitoring.register_event_duration_secs_listener(hear)
  try:
    yield lambda: spent[0]
  finally:
    jax.monitoring.unregister_event_duration_listener(hear)


class Pace:
  """Measures laps: a dispatch with what belongs to it, evaluations and checkpoints.

  A lap in which something was compiled says nothing of the laps to come, and is left out.
  """

  def __init__(self, compiled: Callable[[], float], clock: Callable[[], float] = time.monotonic):
    """Nothing is measured yet.

    Args:
      compiled: as from `compilation`.
      clock: seconds, for tests.
    """
    self._clock, self._compiled = clock, compiled
    self._laps: dict[str, tuple[float, int]] = {}  # stage -> seconds and steps so far
    self.start()

  def start(self) -> None:
    """A stage begins, or goes on: what was before is no part of its first lap."""
    self._since = self._clock(), self._compiled()

  def so_far(self) -> float | None:
    """Seconds of this lap; None where something was compiled in it."""
    seconds, compiled = self._clock() - self._since[0], self._compiled() - self._since[1]
    return seconds if compiled <= _LITTLE * seconds else None

  def lap(self, stage: str, num_steps: int) -> None:
    """Ends a lap of so many steps."""
    seconds = self.so_far()
    self.start()
    if seconds is not None:
      before, steps = self._laps.get(stage, (0.0, 0))
      self._laps[stage] = (before + seconds, steps + num_steps)

  def left(self, ahead: Sequence[tuple[str, int]]) -> tuple[float | None, tuple[str, ...]]:
    """Seconds that are left, and the stages to come that they leave out.

    Args:
      ahead: the stage that runs with the steps that it has left, and those after it.
    Returns:
      The seconds of all stages and (), where each was measured; else those of the stage that runs and the
      names of the others; None for the seconds where that one was not measured either.
    """
    known = [self._laps[stage] for stage, _ in ahead if stage in self._laps]
    if len(known) == len(ahead):
      laps = zip(known, ahead, strict=True)
      return sum(left * seconds / steps for (seconds, steps), (_, left) in laps), ()
    (stage, left), *later = ahead
    seconds, steps = self._laps.get(stage, (0.0, 0))
    return left * seconds / steps if steps else None, tuple(dict.fromkeys(name for name, _ in later))
