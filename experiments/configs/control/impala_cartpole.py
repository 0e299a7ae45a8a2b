"""IMPALA balances a pole: two passes over each rollout in four parts, the last of them eight updates old.

Paper: Espeholt et al., 2018, https://arxiv.org/abs/1802.01561

    rlx --config=control/impala_cartpole --workdir=runs/impala_cartpole

Result: after 256,000 steps of the environment five seeds return 500 of 500, the worst 500. Of the ratios 41 %
are above their cap; the policies that act and learn are 0.001 nats apart on average.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = ppo_cartpole.get_config(arg)
  config.steps = 500  # 256,000 steps of the environment
  config.rollout.update(num_envs=16, num_steps=32)
  config.algorithm = {
      'name': 'impala',
      'entropy_coef': 0.01,
      'value_coef': 0.5,
      'discount': 0.99,
      'lambda_': 1.0,
      'clip_rho': 1.0,
      'clip_c': 1.0,
  }
  config.updates = {'epochs': 2, 'minibatches': 4, 'microbatches': 1}  # of whole stretches
  config.optimizer.update(decay_steps=4000)
  config.evals.episodes.every = 100
  if parse_arg(arg, smoke=False).smoke:
    config.steps, config.evals.episodes.every = 4, 2
    config.rollout.update(num_steps=8)
  return config
