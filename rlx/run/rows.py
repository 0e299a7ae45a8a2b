"""What the train loop makes of arrays: rows of metrics, and rows of a batch that people read."""

from collections.abc import Mapping

import jax
import numpy as np

from rlx.evaluation.turns import transcript
from rlx.learners import without_rests
from rlx.rollout.seats import as_table
from rlx.run.stages import Run
from rlx.run.writers import summarise_population
from rlx.types import Batch


def _one_row(metrics: Mapping, population: int) -> dict[str, float]:
  if population > 1:
    return summarise_population(metrics)
  return {name: float(value) for name, value in metrics.items()}


def of_metrics(metrics: Mapping, population: int) -> list[dict[str, float]]:
  """A row a step, from metrics [steps] or [members, steps]."""
  num_steps = next(iter(metrics.values())).shape[-1]
  rows = [{name: x[..., i] for name, x in metrics.items()} for i in range(num_steps)]
  return [_one_row(without_rests(row), population) for row in rows]


def read_batch(run: Run, batch: Batch, extra: Mapping[str, list], seats: tuple[str, ...]) -> list[dict]:
  """Rows of a batch as text: prompt, completion, reward, advantage, every column named `area/what`, and what
  reward functions logged for the row. The completion of an episode is what was said in it, turn by turn; of
  one with several seats it is what one of them, `seat`, read and said; `seats` are those of a table in
  Python, where the task does not have them."""
  batch = jax.tree.map(np.asarray, batch)
  if 'seats' in batch:
    seats = seats or as_table(run.task).seats
  rows = []
  for i, length in enumerate(batch['prompt_lengths']):
    tokens, valid, mask = (batch[name][i] for name in ('tokens', 'valid', 'action_mask'))
    spoken = run.task.decode(tokens[length:][valid[length:]])
    if 'trajectories' in batch:
      spoken = transcript(run.task, {name: x[i] for name, x in batch.items()})
    row = {
        'prompt': run.task.decode(tokens[:length]),
        'completion': spoken,
        'reward': float(batch['rewards'][i]),
        'advantage': float(batch['advantages'][i][mask][0]) if 'advantages' in batch and mask.any() else 0.0,
    }
    row |= {name: float(x[i]) for name, x in batch.items() if '/' in name}
    row |= {'seat': seats[batch['seats'][i]]} if 'seats' in batch else {}
    rows.append(row | {name: values[i] for name, values in extra.items()})
  return rows
