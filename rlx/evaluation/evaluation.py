"""What an evaluation is: two functions, of which one computes and the other reads."""

from collections.abc import Callable
import dataclasses
from typing import Any

from rlx.types import Models, OnTheHost, World

PROBLEMS_SEED = 0  # the held-out problems are the same for every run of a task
SAMPLES_SEED = 1  # and so is the noise of what is said of them

@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
  """How models are examined.

  Attributes:
    ask: `(models, world) -> arrays`, pure and compiled, vmapped over a population. It takes what it examines
      by name, such as `models['policy']`; `world` is that of the stage.
    read: `arrays -> (metrics, transcripts)`, on the host, where Python may be called. Metrics have short
      names, such as `accuracy`. A transcript has `prompt`, `completion`, `solution` (what was expected, or
      ''), and `correct` where something can be.
  """

  ask: Callable[[Models, World], Any]
  read: Callable[[Any], tuple[dict[str, float], list[dict]]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostEvaluation(Evaluation):
  """An evaluation whose `ask` is Python on the host, as episodes with tools are; it calls its own programs.

  Attributes:
    host: what runs beside it.
  """

  host: OnTheHost
