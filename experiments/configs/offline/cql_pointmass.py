"""CQL on mixed data: SAC that pushes values down wherever the data do not hold them up.

Paper: Kumar et al., 2020, https://arxiv.org/abs/2006.04779

    rlx --config=offline/cql_pointmass --workdir=runs/cql_pointmass

Result: it does not show. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -38.4
(-46.07), 'behaviour cloning' -176.8 (-207.3), 'no conservatism' -56.06 (-57.22). Claimed, and got (95 %
interval over seeds): above 'behaviour cloning' by 30, got 139.5 (133.4 to 151.2), without the mechanism it
holds as well: 'no conservatism'. 206 CPU-s on 2 cores of a CPU; `rlx reproduce offline/cql_pointmass`.

With less noise in the controller and critics without layer norm SAC does not diverge either: two trial seeds
end at -55 and -62, of CQL at -41 and -38. On records of two controllers, one of which goes to another
corner, it is as bad as random actions (-179 to -238, three seeds), but there cloning (-51 to -116) ends
above CQL (-104 to -145).
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_pointmass."""
  config = parent.get_config(arg)
  config.models.policy = {'name': 'squashed_gaussian', 'hidden': (32, 32), 'activation': 'relu'}
  config.models.critic = {
      'name': 'critics', 'num': 2, 'hidden': (32, 32), 'activation': 'relu', 'layer_norm': True,
  }
  config.models.temperature = {'name': 'positive', 'initial': 0.1}
  config.trained = ('policy', 'critic', 'temperature')
  config.slow = {'target': 'critic'}
  config.algorithm = {
      'name': 'cql',
      'parent': {
          'name': 'sac',
          'discount': 0.97,
          'target_rate': 0.01,
          'target_entropy': -1.5,  # nats for each number of an action
      },
      'conservatism': 1.0,
      'num_actions': 4,
  }
  return config


def claim() -> Claim:
  """Beside cloning of the same records; with no conservatism the mechanism is off."""
  return Claim(
      paper='',
      says='conservative values learn from mixed data what cloning does not',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', config='offline/bc_pointmass'),
      controls=(Arm('no conservatism', {'algorithm.conservatism': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
