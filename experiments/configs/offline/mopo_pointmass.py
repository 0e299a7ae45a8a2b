"""MOPO on mixed data: SAC in a model of them, paid less where the model is unsure.

Paper: Yu et al., 2020, https://arxiv.org/abs/2005.13239

    rlx --config=offline/mopo_pointmass --workdir=runs/mopo_pointmass

Result: after 4,000 updates the interquartile mean of ten seeds returns -57.0, the worst -60.6: a score
of 80, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.offline import iql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of iql_pointmass."""
  config = parent.get_config(arg)
  steps = config.steps
  config.stages = ('world', 'main')
  del config.models.value
  config.models.policy = {'name': 'squashed_gaussian', 'hidden': (32, 32), 'activation': 'relu'}
  config.models.temperature = {'name': 'positive', 'initial': 0.1}
  config.models.dynamics = {'name': 'dynamics.ensemble', 'num': 5, 'hidden': (64, 64), 'activation': 'relu'}
  config.world = {
      'steps': steps,
      'stop': ConfigDict(),
      'data': config.data.to_dict(),
      'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'mopo'},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
      'trained': ('dynamics',),
      'slow': {'policy': 'policy'},  # as it begins; evaluations play it
  }
  config.trained = ('policy', 'critic', 'temperature')
  config.slow = {'target': 'critic', 'dynamics': 'dynamics'}
  config.rollout = {
      'name': 'penalised_dreams',
      'horizon': 5,
      'penalty': 1.0,
      'real_rows': 28,
      'dreams': 20,
  }
  config.algorithm = {'name': 'sac', 'discount': 0.97, 'target_rate': 0.01, 'target_entropy': -1.0}
  return config
