"""f-DVL on mixed data: IQL with the conjugate of χ² for its values.

Paper: Sikchi et al., 2023, https://arxiv.org/abs/2302.08560

    rlx --config=offline/fdvl_pointmass --workdir=runs/fdvl_pointmass

Result: after 2,000 updates the interquartile mean of ten seeds returns -39.5, the worst -50.9: a score
of 91, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import iql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of iql_pointmass."""
  config = parent.get_config(arg)
  config.algorithm = {
      'name': 'fdvl',
      'discount': 0.97,
      'target_rate': 0.01,
      'rise': {'name': 'dual_rl.chi_square_rise'},
      'greed': 0.8,
      'sharpness': 3.0,  # per unit of return
      'weight_max': 100.0,
  }
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no sharpness the mechanism is off."""
  return Claim(
      paper='S108',
      says='values by an f-divergence and imitation weighted by them end above imitation of everything',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', config='offline/bc_pointmass'),
      controls=(Arm('no sharpness', {'algorithm.sharpness': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
