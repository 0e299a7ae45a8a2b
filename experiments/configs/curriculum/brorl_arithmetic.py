"""BroRL on sums of uneven difficulty: one problem in sixteen of a usual batch, with 128 samples each.

    rlx --config=curriculum/brorl_arithmetic --workdir=runs/brorl

Paper: https://arxiv.org/abs/2510.01180. There hundreds of samples (512) come on top of a batch that
stays as broad; here the number of rows is that of the quickstart.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 400 train steps, median of 5 seeds
(worst): 0.075 (0.06467), 'eight samples each' 0.3603 (0.2387). Claimed, and got (95 % interval over seeds):
above 'eight samples each', got -0.3028 (-0.3717 to -0.2097), the reverse holds. 315 CPU-s on 2 cores of a
CPU; `rlx reproduce curriculum/brorl_arithmetic`.

On sums of one difficulty (operands of 1 to 30) it did not show: 0.122 (0.0843) beside
0.623 (0.2647) with eight samples each, median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import mopps_arithmetic

EVERYWHERE = {'rollout.scores': {'name': 'controllers.prompts.everywhere'}}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  config.rollout.scores = EVERYWHERE['rollout.scores']
  config.rollout.num_prompts = max(config.rollout.batch_size // 128, 1)
  return config


def claim() -> Claim:
  """As many rows, eight of each problem; that is the mechanism off as well."""
  return Claim(
      paper='S067',
      says='many samples of few problems end above few samples of many, at equal rollouts',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('eight samples each'),),
      baseline=Arm('eight samples each', EVERYWHERE, 'curriculum/mopps_arithmetic:small'),
      minutes=6.0,
  )
