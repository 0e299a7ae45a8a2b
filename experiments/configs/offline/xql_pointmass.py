"""XQL on mixed data: IQL with Gumbel regression.

Paper: Garg et al., 2023, https://arxiv.org/abs/2301.02328

    rlx --config=offline/xql_pointmass --workdir=runs/xql_pointmass

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -42.28
(-55.46), 'behaviour cloning' -176.8 (-207.3), 'no sharpness' -176.8 (-207.3). Claimed, and got (95 % interval
over seeds): above 'behaviour cloning' by 30, got 136 (130.6 to 145.5). 101 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/xql_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import iql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of iql_pointmass."""
  config = parent.get_config(arg)
  config.algorithm = {
      'name': 'xql',
      'discount': 0.97,
      'target_rate': 0.01,
      'scale': 1.0,  # in units of returns
      'exponent_max': 5.0,
      'sharpness': 3.0,  # per unit of return
      'weight_max': 100.0,
  }
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no sharpness the mechanism is off."""
  return Claim(
      paper='S108',
      says='Gumbel regression of values and weighted imitation end above imitation of everything',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', config='offline/bc_pointmass'),
      controls=(Arm('no sharpness', {'algorithm.sharpness': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
