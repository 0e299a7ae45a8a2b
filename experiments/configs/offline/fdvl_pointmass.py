"""f-DVL on mixed data: IQL with the conjugate of χ² for its values.

Paper: Sikchi et al., 2023, https://arxiv.org/abs/2302.08560

    rlx --config=offline/fdvl_pointmass --workdir=runs/fdvl_pointmass

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -39.43
(-51.38), 'behaviour cloning' -176.8 (-207.3), 'no sharpness' -176.8 (-207.3). Claimed, and got (95 % interval
over seeds): above 'behaviour cloning' by 30, got 138.7 (133.2 to 148.5). 98 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/fdvl_pointmass`.
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
