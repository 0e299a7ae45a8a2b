"""GVM-RAFT on sums of uneven difficulty: samples by the gradient over the root of the accept rate.

    rlx --config=curriculum/gvm_arithmetic --workdir=runs/gvm

Paper: https://arxiv.org/abs/2505.02391

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 400 train steps, median of 5 seeds
(worst): 0.4197 (0.3357), 'eight each' 0.461 (0.2267). Claimed, and got (95 % interval over seeds): above
'eight each', got -0.02778 (-0.07022 to 0.059), the run fails it. 603 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/gvm_arithmetic`.

On sums of one difficulty (operands of 1 to 30) it did not show: 0.702 (0.451) beside
0.733 (0.433) with eight each, median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import mopps_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  config.rollout.scores = {'name': 'controllers.prompts.everywhere'}
  config.rollout.allocate = {
      'name': 'controllers.allocation.gvm',
      'low': 2,
      'high': min(64, config.rollout.batch_size // 2),
      'alpha': 1e-3,  # the authors' code
      'beta': 2.0,  # the authors' code
  }
  config.algorithm = {'name': 'gvm'}
  return config


def claim() -> Claim:
  """Eight samples of every problem; as many rows."""
  return Claim(
      paper='S124',
      says='samples in proportion to the gradient over the root of the accept rate beat as many of each',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('eight each'),),
      baseline=Arm('eight each', {'rollout.allocate': {'name': 'controllers.allocation.uniform'}}),
      minutes=6.0,
  )
