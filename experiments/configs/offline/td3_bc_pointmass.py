"""TD3+BC on mixed data: TD3 that is also paid for doing what the data do.

Paper: Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.02860

    rlx --config=offline/td3_bc_pointmass --workdir=runs/td3_bc_pointmass

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -104.6
(-145), 'behaviour cloning' -176.8 (-207.3), 'no greed' -177.8 (-211.5). Claimed, and got (95 % interval over
seeds): above 'behaviour cloning' by 30, got 76.38 (57.91 to 92.2). 88 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/td3_bc_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.models.policy = {
      'name': 'deterministic', 'hidden': (32, 32), 'activation': 'relu', 'exploration_noise': 0.0,
  }
  config.models.critic = {
      'name': 'critics', 'num': 2, 'hidden': (32, 32), 'activation': 'relu', 'layer_norm': True,
  }
  config.trained = ('policy', 'critic')
  config.slow = {'target': 'critic', 'target_policy': 'policy'}
  config.algorithm = {
      'name': 'td3_bc',
      'parent': {
          'name': 'td3',
          'discount': 0.97,
          'smoothing_noise': 0.2,
          'noise_clip': 0.5,
          'target_rate': 0.01,
          'target_period': 2,
      },
      'greed': 2.5,
  }
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no greed the mechanism is off."""
  return Claim(
      paper='',
      says='TD3 that is also paid for imitation ends above imitation',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', config='offline/bc_pointmass'),
      controls=(Arm('no greed', {'algorithm.greed': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
