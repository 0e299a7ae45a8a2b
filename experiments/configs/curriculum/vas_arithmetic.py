"""Variance-aware sampling on sums of uneven difficulty: three quarters of a batch by p (1 - p) and entropy.

    rlx --config=curriculum/vas_arithmetic --workdir=runs/vas

Paper: https://arxiv.org/abs/2509.21268. There diversity is that of the words of the answers,
measured every so many steps; here it is the entropy that training saw last.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 400 train steps, median of 5 seeds
(worst): 0.3197 (0.2707), 'at random' 0.314 (0.1957), 'variance alone' 0.3717 (0.2283). Claimed, and got (95 %
interval over seeds): above 'at random', got 0.009447 (-0.015 to 0.09211), the seeds leave it open; above
'variance alone', got -0.03989 (-0.09067 to 0.06334), the run fails it. 466 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/vas_arithmetic`.

On sums of one difficulty (operands of 1 to 30) it did not show: 0.6187 (0.2667) beside
0.6567 (0.281) at random, median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import mopps_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  config.rollout.scores = {
      'name': 'controllers.prompts.by_variance_and_entropy',
      'variance_coef': 1.0,
      'diversity_coef': 0.1,
      'unseen': 0.5,
  }
  config.rollout.draw = {
      'name': 'controllers.prompts.mixed',
      'num_weighted': config.rollout.num_prompts * 3 // 4,
  }
  return config


def claim() -> Claim:
  """Problems at random, and by the variance of rewards alone; all have as many rows."""
  return Claim(
      paper='S030',
      says='problems by variance and diversity are learnt faster than problems at random',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('at random'), above('variance alone')),
      baseline=Arm('at random', {'rollout.scores': {'name': 'controllers.prompts.everywhere'}}),
      beside=(Arm('variance alone', {'rollout.scores.diversity_coef': 0.0}),),
      minutes=8.0,
  )
