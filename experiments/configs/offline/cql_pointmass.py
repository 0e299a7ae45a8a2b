"""CQL on mixed data: SAC that pushes values down wherever the data do not hold them up.

Paper: Kumar et al., 2020, https://arxiv.org/abs/2006.04779

    rlx --config=offline/cql_pointmass --workdir=runs/cql_pointmass

Result: after 2,000 updates the interquartile mean of ten seeds returns -40.5, the worst -45.1: a score
of 90, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
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
