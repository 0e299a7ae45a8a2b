"""Knapsack RL on sums of uneven difficulty: 8 samples a problem on average, 2 to 64 by what they may teach.

    rlx --config=curriculum/knapsack_arithmetic --workdir=runs/knapsack

Paper: https://arxiv.org/abs/2509.25849

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 400 train steps, median of 5 seeds
(worst): 0.384 (0.2077), 'eight each' 0.3603 (0.2387). Claimed, and got (95 % interval over seeds): above
'eight each', got -0.008667 (-0.03756 to 0.04567), the run fails it. 302 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/knapsack_arithmetic`.

On sums of one difficulty (operands of 1 to 30) it did not show: 0.6277 (0.322) beside
0.623 (0.2647) with eight each, median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import mopps_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  config.rollout.scores = {'name': 'controllers.prompts.everywhere'}
  config.rollout.allocate = {
      'name': 'controllers.allocation.knapsack',
      'low': 2,
      'high': min(64, config.rollout.batch_size // 2),
  }
  return config


def claim() -> Claim:
  """Eight samples of every problem; as many rows."""
  return Claim(
      paper='S159',
      says='samples where they may teach reach more than eight of each problem, at equal rollouts',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('eight each'),),
      baseline=Arm('eight each', {'rollout.allocate': {'name': 'controllers.allocation.uniform'}}),
      minutes=6.0,
  )
