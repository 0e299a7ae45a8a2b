"""DARS-HW on sums of uneven difficulty: 8 samples a problem on average, more where it is hard.

    rlx --config=curriculum/dars_arithmetic --workdir=runs/dars

Paper: https://arxiv.org/abs/2508.13755. There samples are added to a first group of each problem;
here a fixed number is dealt by the rates that training saw, so that the step keeps its shape.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 400 train steps, median of 5 seeds
(worst): 0.363 (0.2143), 'eight each' 0.3603 (0.2387). Claimed, and got (95 % interval over seeds): above
'eight each', got -0.01111 (-0.05355 to 0.025), the run fails it. 308 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/dars_arithmetic`.

On sums of one difficulty (operands of 1 to 30) it did not show: 0.634 (0.2527) beside
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
      'name': 'controllers.allocation.dars_hardness_weighted',  # or dars_equal_treatment, DARS-ET
      'low': 2,
      'high': min(32, config.rollout.batch_size // 2),
  }
  return config


def claim() -> Claim:
  """Eight samples of every problem; as many rows."""
  return Claim(
      paper='S033',
      says='more samples where it is hard reach more than eight of each problem, at equal rollouts',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('eight each'),),
      baseline=Arm('eight each', {'rollout.allocate': {'name': 'controllers.allocation.uniform'}}),
      minutes=6.0,
  )
