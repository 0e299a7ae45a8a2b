"""DDPG swings a pendulum up.

Paper: Lillicrap et al., 2015, https://arxiv.org/abs/1509.02971

    rlx --config=control/ddpg_pendulum --workdir=runs/ddpg_pendulum

Result: after 4,500 steps of the environment the interquartile mean of ten seeds is -172, the worst
-176 (`python -m rlx.experiments.control_table`).

With noise of 0.1 one seed never swings up (-1006). Its start is not to blame: from the same networks, with
600 random steps first in the place of 500, all ten do (worst -181), and so do ten trial seeds (worst -216).
More noise finds the way up more surely: on trial seeds the worst ends at -183.
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
          'name': 'critics', 'num': 1, 'hidden': (64, 64), 'activation': 'relu', 'layer_norm': False,
      },
  }
  config.trained = ('policy', 'critic')
  config.slow = {'target': 'critic', 'target_policy': 'policy'}
  config.algorithm = {'name': 'ddpg', 'discount': 0.99, 'target_rate': 0.005}
  config.optimizer = {
      'name': 'adam_per_model',
      'learning_rates': {'policy': 1e-3, 'critic': 3e-3},
      'periods': {'policy': 1, 'critic': 1},  # updates
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
  }
  return config
