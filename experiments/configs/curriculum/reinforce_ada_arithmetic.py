"""Reinforce-Ada on sums of uneven difficulty: rounds until a problem has four right and four wrong.

    rlx --config=curriculum/reinforce_ada_arithmetic --workdir=runs/reinforce_ada

Paper: https://arxiv.org/abs/2510.04996

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 102,400 rollouts at most, median of
5 seeds (worst): 0.238 (0.123), 'GRPO on all rows' 0.3013 (0.204), 'one round' 0.2267 (0.1513). Claimed, and
got (95 % interval over seeds): above 'GRPO on all rows', got -0.07478 (-0.1097 to -0.05111), the reverse
holds. 397 CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/reinforce_ada_arithmetic`.

On sums of one difficulty (operands of 1 to 30) it did not show: 0.6177 (0.2213) beside
0.6843 (0.3103) by GRPO, median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import mopps_arithmetic
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  mopps_arithmetic.make_uneven(config)
  config.population.size = 3
  rows = config.rollout.batch_size // 2  # what is trained on; up to twice as many are sampled
  config.rollout = {
      'name': 'rounds.until_settled',
      'batch_size': rows,
      'group_size': 8,
      'num_slots': 0,
      'round_rows': rows // 2,
      'num_rounds': 4,
      'positives_min': 4,
      'negatives_min': 4,
  }
  config.algorithm = {'name': 'presets.reinforce_ada', 'clip_low': 0.2, 'clip_high': 0.28}
  return config


def claim() -> Claim:
  """GRPO with the rows that the rounds may take; and the same estimator on a single round."""
  every_row = {'name': 'prompts.completions', 'batch_size': 256, 'group_size': 8, 'num_slots': 0}
  return Claim(
      paper='S222',
      says='rounds until a group is balanced earn more for a rollout than GRPO',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO on all rows'),),
      cost=256,
      budget_name='rollouts at most',
      baseline=Arm('GRPO on all rows', {'rollout': every_row, 'algorithm': arithmetic.GRPO}, cost=256),
      controls=(Arm('one round', {'rollout.round_rows': 256, 'rollout.num_rounds': 1}, cost=256),),
      minutes=8.0,
  )
