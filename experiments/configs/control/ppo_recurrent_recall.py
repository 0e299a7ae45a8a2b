"""Recurrent PPO remembers what it was shown eight steps ago.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347

    rlx --config=control/ppo_recurrent_recall --workdir=runs/ppo_recurrent_recall

Result: each of ten seeds returns 1, the best there is (`python -m rlx.experiments.control_table`), and so do
forty trial seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = ppo_cartpole.get_config(arg)
  config.env = {'name': 'recall', 'num_steps': 8}
  config.models = {'policy': {'name': 'recurrent.gru', 'size': 32}}
  config.trained = ('policy',)
  config.rollout = {'name': 'recurrent', 'num_envs': 32, 'num_steps': 16}
  config.algorithm = {
      'name': 'ppo_recurrent',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_coef': 0.01,
      'value_coef': 0.5,
      'discount': 0.99,
      'lambda_': 0.95,
  }
  config.optimizer.learning_rate = 3e-3
  config.evals.episodes.name, config.evals.episodes.max_steps = 'recurrent.episodes', 8
  return config
