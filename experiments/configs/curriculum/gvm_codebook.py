"""GVM-RAFT on codes of uneven difficulty: samples by the gradient over the root of the accept rate.

    rlx --config=curriculum/gvm_codebook --workdir=runs/gvm

Paper: https://arxiv.org/abs/2505.02391

Result: it shows. Final eval/held_out/accuracy after 700 train steps, median of 10 seeds (worst): 0.9083
(0.8433), 'eight each' 0.8633 (0.8367). Claimed, and got (95 % interval over seeds): above 'eight each', got
0.05722 (0.03334 to 0.065); final eval/hard/passed: above 'eight each', got 0.1994 (0.1467 to 0.2683). 877
CPU-s on 1 cores of a CPU; `rlx reproduce curriculum/gvm_codebook`.

On sums, where easy problems teach what the hard ones need, it did not show: 0.4197 (0.3357) beside
0.461 (0.2267) with eight each where difficulty was uneven, 0.702 (0.451) beside 0.733 (0.433) where it was
not; median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.curriculum import knapsack_codebook


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = knapsack_codebook.codes(arg)
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
      reading=final('eval/held_out/accuracy'),
      asserts=(above('eight each'), above('eight each', reading=final('eval/hard/passed'))),
      baseline=Arm('eight each', knapsack_codebook.UNIFORM),
      seeds=10,
      minutes=8.0,
  )
