"""Programs that are timed in turn, A B A B, so that what else the machine does falls on all alike."""

from collections.abc import Callable, Mapping
import statistics
import time
from typing import Any

import jax


def seconds(
    programs: Mapping[str, Callable], inputs: tuple[Any, ...], rounds: int, *,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
  """Name -> median seconds of a call.

  Args:
    programs: name -> a function of the inputs; a call that compiles comes first and does not count.
    inputs: of each of them.
    rounds: calls of each.
    clock: whose seconds; `time.process_time` for those of all cores.
  """
  for program in programs.values():
    jax.block_until_ready(program(*inputs))
  times = {name: [] for name in programs}
  for _ in range(rounds):
    for name, program in programs.items():
      start = clock()
      jax.block_until_ready(program(*inputs))
      times[name].append(clock() - start)
  return {name: statistics.median(x) for name, x in times.items()}
