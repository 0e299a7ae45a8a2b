"""SAW in a long corridor, from walks that hardly ever go through it.

Paper: Zhou & Kao, 2025, https://arxiv.org/abs/2505.14975

    rlx --config=offline/saw_corridor --workdir=runs/saw_corridor

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 20 seeds (worst): 1 (0),
'GCIQL' 0 (0), 'waypoints alike' 0.5 (0), 'no subgoals' 0 (0). Claimed, and got (95 % interval over seeds):
above 'GCIQL', got 0.9 (0.5 to 1). 119 CPU-s on 1 cores of a CPU; `rlx reproduce offline/saw_corridor`.

Episodes of an evaluation go from end to end of 45 cells: 19 of 20 seeds of SAW end there, 6 of GCIQL, which
finds the way and loses it again, 10 where waypoints count alike, and 3 without subgoals. Ten seeds left it
open (nine, five, four and one); ten more were run then. In a corridor of 30, from anywhere to anywhere, GCIQL
arrived as often.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import gciql_corridor as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = parent.get_config('long,smoke' if parse_arg(arg, smoke=False).smoke else 'long')
  del config.models.critic
  config.models.subpolicy = config.models.policy.copy_and_resolve_references()
  config.trained = ('policy', 'subpolicy', 'value')
  config.slow = {'target': 'value'}
  config.algorithm = {
      'name': 'saw',
      'discount': 0.95,
      'target_rate': 0.02,
      'expectile': 0.7,
      'sharpness': 3.0,
      'waypoint_sharpness': 3.0,
      'weight_max': 100.0,
  }
  return config


def claim() -> Claim:
  """Beside its parent GCIQL. Without weights any waypoint counts; one that is a step away is no subgoal."""
  return Claim(
      paper='S102',
      says='a flat policy taught by subgoals reaches the end of a corridor more often than its parent',
      reading=final('eval/episodes/return'),
      asserts=(above('GCIQL'),),
      baseline=Arm('GCIQL', config='offline/gciql_corridor:long'),
      controls=(
          Arm('waypoints alike', {'algorithm.waypoint_sharpness': 0.0}),
          Arm('no subgoals', {'rollout.waypoint_steps': 1}),
      ),
      seeds=20,
      minutes=3.0,
  )
