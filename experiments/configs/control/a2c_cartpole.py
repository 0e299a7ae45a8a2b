"""A2C balances a pole.

Paper: Mnih et al., 2016, https://arxiv.org/abs/1602.01783

    rlx --config=control/a2c_cartpole --workdir=runs/a2c_cartpole

Result: after 512,000 steps of the environment the interquartile mean of ten seeds is 500 of 500, the worst
247 (`python -m rlx.experiments.control_table`); the worst of forty trial seeds was 396. At two thirds of the
rate one of twenty ended below 400, at four thirds three of forty, with an entropy bonus of 0.01 one of forty.
After half as many steps at twice the rate, which stood here before, the worst of the ten was at 170, and two
of thirty trial seeds ended below 300; with a rate that falls to 0, rows of eight steps, twice the
environments, an entropy bonus or λ of 0.95 besides as many or more: A2C forgets now and then, whichever of
these it has.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = ppo_cartpole.get_config(arg)
  config.steps = 4000  # 512,000 steps of the environment
  config.rollout.update(num_envs=32, num_steps=4)
  config.algorithm = {
      'name': 'a2c', 'entropy_coef': 0.0, 'value_coef': 0.5, 'discount': 0.99, 'lambda_': 1.0,
  }
  config.updates = {'epochs': 1, 'minibatches': 1, 'microbatches': 1}
  config.optimizer.update(learning_rate=1.5e-3, decay_steps=4000)
  config.evals.episodes.every = 400
  config.checkpoint.every = 2000
  if parse_arg(arg, smoke=False).smoke:
    config.steps, config.evals.episodes.every, config.checkpoint.every = 4, 2, 2
  return config
