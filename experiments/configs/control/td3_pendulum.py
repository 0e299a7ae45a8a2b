"""TD3 swings a pendulum up.

Paper: Fujimoto et al., 2018, https://arxiv.org/abs/1802.09477

    rlx --config=control/td3_pendulum --workdir=runs/td3_pendulum

Result: after 5,000 steps of the environment the interquartile mean of ten seeds is -168, the worst -177
(`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import sac_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = sac_pendulum.get_config(arg)
  config.models = {
      'policy': {
          'name': 'deterministic', 'hidden': (64, 64), 'activation': 'relu', 'exploration_noise': 0.3,
      },
      'critic': {
          'name': 'critics', 'num': 2, 'hidden': (64, 64), 'activation': 'relu', 'layer_norm': False,
      },
  }
  config.trained = ('policy', 'critic')
  config.slow = {'target': 'critic', 'target_policy': 'policy'}
  config.algorithm = {
      'name': 'td3',
      'discount': 0.99,
      'smoothing_noise': 0.2,  # the authors'
      'noise_clip': 0.5,  # the authors'
      'target_rate': 0.01,
      'target_period': 2,  # updates; the authors'
  }
  config.optimizer = {
      'name': 'adam_per_model',
      'learning_rates': {'policy': 1e-3, 'critic': 3e-3},
      'periods': {'policy': 2, 'critic': 1},  # updates
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
  }
  return config
