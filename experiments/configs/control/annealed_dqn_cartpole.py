"""DQN balances a pole, exploring less and less, with a target that follows at each update.

Paper: Mnih et al., 2015, https://doi.org/10.1038/nature14236

    rlx --config=control/annealed_dqn_cartpole --workdir=runs/annealed_dqn_cartpole

Differs from what dqn_cartpole was (`make_rare`) in that actions are random with a probability that falls from
1 to 0.05 in half of the run, and in a target that takes on 1 % of the network after each update.

Result: after 40,000 steps of the environment the interquartile mean of five seeds is 266 of 500, the worst
247 (`python -m rlx.experiments.control_table --seeds 5`).
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = dqn_cartpole.get_config(arg)
  dqn_cartpole.make_rare(config)
  config.models.policy.epsilon = 0.05  # what is left in the end
  config.models.policy = {'name': 'annealed', 'network': config.models.policy.to_dict()}
  schedule = {'name': 'schedules.linear', 'first': 1.0, 'last': 0.0, 'num_steps': 5000}
  config.models.exploration = {'name': 'exploration', 'schedule': schedule}
  config.slow.exploration = 'exploration'
  config.rollout = {'name': 'annealing', 'inner': config.rollout.to_dict()}
  config.algorithm.update(target_period=1)
  config.algorithm.target_rate = 0.01
  return config
