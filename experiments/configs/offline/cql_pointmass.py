"""CQL on mixed data: SAC that pushes values down wherever the data do not hold them up.

Paper: Kumar et al., 2020, https://arxiv.org/abs/2006.04779

    rlx --config=offline/cql_pointmass --workdir=runs/cql_pointmass

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): -45.95
(-151.2), 'behaviour cloning' -133.8 (-141.6), 'no conservatism' -175.7 (-238.4). Claimed, and got (95 %
interval over seeds): above 'behaviour cloning' by 30, got 78.98 (46.37 to 93.74). 70 CPU-s on 1 cores of a
CPU; `rlx reproduce offline/cql_pointmass`.

On mixed data, two thirds of which are random, coverage does what conservatism is for: -38.4 (-46.07), median
and worst of ten seeds, -56.06 (-57.22) without it, -176.8 (-207.3) by cloning. On records of two drivers who
sway less (0.2) 2,000 updates were too few: three trial seeds of five ended below -110.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent

ASTRAY = (-0.7, 0.7)


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `drivers` (records of two, in place of mixed ones)."""
  arg = parse_arg(arg, smoke=False, drivers=False)
  config = parent.get_config('smoke' if arg.smoke else '')
  if arg.drivers:
    config.data = two_drivers(config.data)
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


def two_drivers(records: ConfigDict) -> dict:
  """A third of the records drives to the goal, the rest to another corner; both sway little."""
  driver = {**records.to_dict(), 'noise': 0.3, 'random_share': 0.0}
  astray = {**driver, 'goal': ASTRAY, 'num_envs': driver['num_envs'] * 2 // 3, 'seed': 1}
  right = {**driver, 'num_envs': driver['num_envs'] - astray['num_envs']}
  return {'name': 'transitions.mixture', 'first': astray, 'second': right}


def claim() -> Claim:
  """Beside cloning of the same records; with no conservatism the mechanism is off."""
  records = two_drivers(parent.get_config().data)
  return Claim(
      paper='',
      says='from records of two drivers, of whom one goes astray, conservative values learn what cloning '
      'does not',
      argument='drivers',
      reading=final('eval/episodes/return'),
      asserts=(above('behaviour cloning', by=30.0),),
      baseline=Arm('behaviour cloning', {'data': records}, 'offline/bc_pointmass'),
      controls=(Arm('no conservatism', {'algorithm.conservatism': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
