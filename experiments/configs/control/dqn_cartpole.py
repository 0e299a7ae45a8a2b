"""DQN balances a pole.

Paper: Mnih et al., 2015, https://doi.org/10.1038/nature14236

    rlx --config=control/dqn_cartpole --workdir=runs/dqn_cartpole

Result: after 100,000 steps of the environment the interquartile mean of ten seeds is 500 of 500, the worst
464 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = ppo_cartpole.get_config(arg)
  trunk = {'hidden': (64, 64), 'activation': 'relu', 'layer_norm': False}
  config.models = {
      'policy': {
          'name': 'epsilon_greedy',
          'network': {'name': 'action_values', **trunk},
          'epsilon': 0.1,
      },
  }
  config.trained, config.slow = ('policy',), {'target': 'policy'}
  config.steps = 25_000  # 100,000 steps of the environment
  config.rollout = {
      'name': 'replay',
      'num_envs': 4,
      'num_steps': 1,  # of each environment a train step
      'capacity': 100_000,  # transitions: all of them
      'warmup_steps': 1000,  # random ones before the first train step
      'batch_size': 512,  # for four updates, one for each step of an environment
  }
  config.algorithm = {
      'name': 'dqn',
      'target': {'name': 'dqn.max_target'},
      'discount': 0.99,
      'huber_delta': 50.0,  # in units of returns, which reach 100
      'target_period': 1,  # updates
      'target_rate': 0.005,
  }
  config.updates = {'epochs': 1, 'minibatches': 4, 'microbatches': 1}
  config.optimizer.update(learning_rate=5e-4, decay_steps=100_000, clip_norm=10.0)
  config.evals.episodes.every, config.checkpoint.every, config.log.steps_per_dispatch = 2500, 5000, 250
  if parse_arg(arg, smoke=False).smoke:
    config.steps, config.log.steps_per_dispatch = 4, 2
    config.evals.episodes.every = config.checkpoint.every = 2
    config.rollout.update(capacity=64, warmup_steps=16, batch_size=16)
  return config


def make_rare(config: ConfigDict) -> None:
  """One update for four steps of an environment and a copy now and then, for tasks that need no more."""
  del config.algorithm.target_rate
  config.algorithm.target_period = 200  # updates
  config.updates.minibatches = 1
  config.optimizer.decay_steps = 10_000
  if config.steps > 4:
    config.steps, config.evals.episodes.every = 10_000, 1000
    config.rollout.update(capacity=20_000, batch_size=128)
