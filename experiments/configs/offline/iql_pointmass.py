"""IQL on mixed data: values of the best actions in them, and imitation weighted by those.

Paper: Kostrikov et al., 2021, https://arxiv.org/abs/2110.06169

    rlx --config=offline/iql_pointmass --workdir=runs/iql_pointmass

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -39.63
(-54.01), 'behaviour cloning' -176.8 (-207.3), 'no sharpness' -176.8 (-207.3). Claimed, and got (95 % interval
over seeds): above 'behaviour cloning' by 30, got 138.5 (134.2 to 147.7). 55 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/iql_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.models.value = {'name': 'state_value', 'hidden': (32, 32), 'activation': 'relu'}
  config.models.critic = {
      'name': 'critics', 'num': 2, 'hidden': (32, 32), 'activation': 'relu', 'layer_norm': True,
  }
  config.trained = ('policy', 'value', 'critic')
  config.slow = {'target': 'critic'}
  config.algorithm = {
      'name': 'iql',
      'discount': 0.97,
      'target_rate': 0.01,
      'expectile': 0.8,
      'sharpness': 3.0,  # per unit of return; those of an episode reach -25
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
