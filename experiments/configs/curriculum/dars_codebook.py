"""DARS-HW on codes of uneven difficulty: 8 samples a problem on average, more where it is hard.

    rlx --config=curriculum/dars_codebook --workdir=runs/dars

Paper: https://arxiv.org/abs/2508.13755. There samples are added to a first group of each problem;
here a fixed number is dealt by the rates that training saw, so that the step keeps its shape.

Result: it shows. Final eval/held_out/accuracy after 700 train steps, median of 10 seeds (worst): 0.9017
(0.8667), 'eight each' 0.8633 (0.82). Claimed, and got (95 % interval over seeds): above 'eight each', got
0.03778 (0.01444 to 0.06); final eval/hard/passed: above 'eight each', got 0.23 (0.1267 to 0.3011). 462 CPU-s
on 1 cores of a CPU; `rlx reproduce curriculum/dars_codebook`.

On sums, where easy problems teach what the hard ones need, it did not show: 0.363 (0.2143) beside
0.3603 (0.2387) with eight each where difficulty was uneven, 0.634 (0.2527) beside 0.623 (0.2647) where it was
not; median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.curriculum import knapsack_codebook


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = knapsack_codebook.codes(arg)
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
      reading=final('eval/held_out/accuracy'),
      asserts=(above('eight each'), above('eight each', reading=final('eval/hard/passed'))),
      baseline=Arm('eight each', knapsack_codebook.UNIFORM),
      seeds=10,
      minutes=6.0,
  )
