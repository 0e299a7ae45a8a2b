"""MPO swings a pendulum up.

Paper: Abdolmaleki et al., 2018, https://arxiv.org/abs/1806.06920

    rlx --config=control/mpo_pendulum --workdir=runs/mpo_pendulum

Result: after 4,500 steps of the environment the interquartile mean of ten seeds is -174, the worst
-179 (`python -m rlx.experiments.control_table`).

With one bound for mean and spread together (0.01), one seed never swings up: -175, worst -1562. Rows of four
steps, 64 in the place of 256, whose errors Retrace carries back, are no better: -181, worst -873. On ten
trial seeds these bounds end at -174 (worst -178), with four steps at -174 (-247). With four steps and a bound
of 1e-3 for the spread it is -231 (-1329), with 0.01 and 1e-4 -783: the policy moves too slowly for so few.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import sac_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = sac_pendulum.get_config(arg)
  config.models.critic.num = 1
  config.models.temperature.initial = 10.0  # in units of returns
  config.models.mean_multiplier = config.models.spread_multiplier = {'name': 'positive', 'initial': 1.0}
  config.trained = ('policy', 'critic', 'temperature', 'mean_multiplier', 'spread_multiplier')
  config.slow = {'target': 'critic', 'target_policy': 'policy'}
  config.rollout.update(name='stretch_replay', length=1)
  config.algorithm = {
      'name': 'mpo',
      'num_actions': 20,
      'epsilon': 0.1,
      'mean_limit': 0.1,
      'spread_limit': 0.01,
      'discount': 0.99,
      'lambda_': 1.0,  # of rows of several steps
      'target_rate': 0.01,
  }
  duals = ('temperature', 'mean_multiplier', 'spread_multiplier')
  config.optimizer = {
      'name': 'adam_per_model',
      'learning_rates': {'policy': 1e-3, 'critic': 3e-3, **dict.fromkeys(duals, 1e-2)},
      'periods': dict.fromkeys(config.trained, 1),  # updates
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
  }
  return config
