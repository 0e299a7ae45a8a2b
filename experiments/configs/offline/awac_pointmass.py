"""AWAC on mixed data: an actor-critic that imitates with the weights of its advantages.

Paper: Nair et al., 2020, https://arxiv.org/abs/2006.09359

    rlx --config=offline/awac_pointmass --workdir=runs/awac_pointmass

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -42.38
(-52.33), 'behaviour cloning' -176.8 (-207.3), 'no sharpness' -176.8 (-207.3). Claimed, and got (95 % interval
over seeds): above 'behaviour cloning' by 30, got 137.3 (132.5 to 144.7). 118 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/awac_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.models.critic = {
      'name': 'critics', 'num': 2, 'hidden': (32, 32), 'activation': 'relu', 'layer_norm': True,
  }
  config.trained = ('policy', 'critic')
  config.slow = {'target': 'critic'}
  config.algorithm = {
      'name': 'awac',
      'discount': 0.97,
      'target_rate': 0.01,
      'sharpness': 3.0,  # per unit of return
      'weight_max': 100.0,
  }
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no sharpness the mechanism is off."""
  return Claim(
      paper='',
      says='imitation weighted by advantages ends above imitation of everything',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', config='offline/bc_pointmass'),
      controls=(Arm('no sharpness', {'algorithm.sharpness': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
