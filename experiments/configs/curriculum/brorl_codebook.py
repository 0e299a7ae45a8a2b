"""BroRL on codes that are hardly known: four problems of a batch with 64 samples each, for 32 with eight.

    rlx --config=curriculum/brorl_codebook --workdir=runs/brorl

Paper: https://arxiv.org/abs/2510.01180. There hundreds of samples (512) come on top of a batch that stays as
broad; here the number of rows is the same in both.

The codes (`envs/codebook.py`) teach nothing about each other, and after SFT each is right in one answer of
fifteen. Of eight samples often none is right, and after some 200 steps nothing more is learnt with them.
Three trial seeds came to 0.69, 0.56 and 0.71 with 64 samples, to 0.59, 0.34 and 0.59 with eight.

Result: it shows. Final eval/held_out/accuracy after 900 train steps, median of 5 seeds (worst): 0.7267
(0.51), 'eight samples each' 0.7033 (0.3467). Claimed, and got (95 % interval over seeds): above 'eight
samples each', got 0.1089 (0.03111 to 0.1889). 540 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/brorl_codebook`.

On sums, where easy problems teach what the hard ones need and breadth is what teaches, it did not show: 0.075
(0.06467) with 128 samples beside 0.3603 (0.2387) with eight where difficulty was uneven, 0.122 (0.0843)
beside 0.623 (0.2647) where it was not; median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.curriculum import knapsack_codebook

ROWS, SAMPLES, STEPS = 256, 64, 500
KNOWN = {'num_keys': 32, 'num_levels': 1, 'used': (0,)}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = knapsack_codebook.codes(arg)
  smoke = parse_arg(arg, smoke=False).smoke
  config.task.update(KNOWN)
  config.sft.task.update(KNOWN, right_shares=(0.05,))  # and a guess is right in one case of 64
  del config.evals.hard
  if not smoke:
    config.steps, config.optimizer.decay_steps = STEPS, STEPS - 20
    config.rollout.batch_size = ROWS
  config.rollout.num_prompts = max(config.rollout.batch_size // SAMPLES, 1)
  return config


def claim() -> Claim:
  """As many rows, eight of each problem; that is the mechanism off as well."""
  return Claim(
      paper='S067',
      says='many samples of few problems go on where few samples of many come to a halt, at equal rollouts',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('eight samples each'),),
      baseline=Arm('eight samples each', {'rollout.num_prompts': ROWS // 8}),
      minutes=10.0,
  )
