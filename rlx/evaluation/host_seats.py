"""What speakers get at a table in Python, with their tools: whole episodes on held-out rows.

Speakers draw as in the run, as in `seats.py`: what is best may be a matter of chance.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.errors import at_least
from rlx.evaluation.evaluation import HostEvaluation
from rlx.rollout.circle import Circle
from rlx.rollout.tabletop import Tabletop
from rlx.rollout.toolbox import Toolbox
from rlx.types import Models, World

_NOISE_SEED = 0  # the noise is the same for every evaluation of a run


def episodes(
    task: Dataset, speakers: Mapping[str, Speaker], table: Tabletop, toolboxes: Mapping[str, Toolbox], *,
    problems: int, num_slots: int, turn_tokens: int, max_turns: int,
) -> HostEvaluation:
  """An episode of each of the first held-out rows.

  Args:
    task: the data set.
    speakers: seat -> who sits there, by `names`.
    table: in Python.
    toolboxes: seat -> what it may call.
    problems: how many held-out rows are asked.
    num_slots: episodes in the loop at a time; 0 for all.
    turn_tokens: the most tokens of a turn.
    max_turns: the most turns of an episode, of all seats together.
  Returns:
    The evaluation; its metrics are, of each seat, `payoff_<seat>` (the mean of what it got, without episodes
    whose table was lost; 0 where all were), `turns_<seat>`, `calls_<seat>` and `failed_calls_<seat>`; and
    `truncated_fraction` and `tables_lost`.
  Raises:
    ValueError: as the rollout `host_seats.episodes`, or there are fewer held-out rows.
  """
  at_least(1, problems=problems, max_turns=max_turns)
  circle = Circle(
      task, speakers, table, toolboxes, group_size=1, num_slots=num_slots, turn_tokens=turn_tokens
  )
  asked = task.held_out(problems)

  def ask(models: Models, world: World):
    del world
    return circle.sample(
        models, jax.tree.map(jnp.asarray, asked), jax.random.key(_NOISE_SEED), record='episodes',
        max_turns=max_turns,
    )

  def read(rows):
    metrics = {}
    for seat, batch in rows.items():
      failed = [x for name, x in batch.items() if name.startswith('tools/failed_')]
      turns = np.where(batch['action_mask'], batch['turns'] + 1, 0).max(axis=1)
      known = batch['payoffs'][~np.isnan(batch['payoffs'])]
      metrics |= {
          f'payoff_{seat}': float(known.mean()) if len(known) else 0.0,
          f'turns_{seat}': float(turns.mean()),
          f'calls_{seat}': float(batch['tools/calls'].mean()),
          f'failed_calls_{seat}': float(np.sum(failed, axis=0).mean()),
      }
    first = next(iter(rows.values()))
    lost = float(first['tools/tables_lost'].mean())
    return {**metrics, 'truncated_fraction': float(first['truncated'].mean()), 'tables_lost': lost}, []

  return HostEvaluation(ask=ask, read=read, host=circle)
