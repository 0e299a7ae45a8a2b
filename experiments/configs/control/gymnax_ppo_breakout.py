"""PPO on MinAtar's Breakout, by gymnax: pictures of 10 x 10 x 4, whose numbers a network of two layers takes.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347; Young and Tian, 2019,
https://arxiv.org/abs/1903.03176 (the game)

    pip install 'rlx[gymnax]'
    rlx --config=control/gymnax_ppo_breakout --workdir=runs/gymnax_ppo_breakout --config.population.size=5

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole

CONVOLUTION = {'channels': (16,), 'kernels': (3,), 'strides': (1,), 'activation': 'relu', 'scale': 1.0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (a game of pictures in gymnax), `convolution` (one in
  front of each network, as the game's authors have it)."""
  arg = parse_arg(arg, smoke=False, env='Breakout-MinAtar', convolution=False)
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  config.env = {'name': f'gymnax:{arg.env}'}
  for name, head in (('policy', 'categorical'), ('value', 'state_value')):
    network = {'name': head, 'hidden': (64, 64), 'activation': 'relu'}
    config.models[name] = (
        {'name': 'convolutional', 'network': network, **CONVOLUTION} if arg.convolution else network
    )
  if not arg.smoke:
    config.steps = 240  # 1,966,080 steps of the environment
    config.rollout.update(num_envs=64, num_steps=128)
    config.updates.update(epochs=4, minibatches=8)
    config.algorithm.entropy_coef = 0.05
    config.optimizer.update(learning_rate=2.5e-3, decay_steps=7680)
    config.evals.episodes.update(every=20, episodes=32, max_steps=1000)
    config.checkpoint.every = 60
  return config
