"""PPO on MinAtar's Breakout, by gymnax: pictures of 10 x 10 x 4, one convolution in front of each network.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347; Young and Tian, 2019,
https://arxiv.org/abs/1903.03176 (the game and the network)

    pip install 'rlx[gymnax]'
    rlx --config=control/gymnax_ppo_breakout --workdir=runs/gymnax_ppo_breakout

Result: one seed, 20 of the 120 steps (163,840 steps of the environment; gymnax 1.0.1): episodes as sampled
went from a return of 0.4 to 4.3, those of the most probable actions from 0 to 6.0, the same in all 32.
It was stopped there after some 3 minutes of a core's time; the whole was not run.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole

CONVOLUTION = {'channels': (16,), 'kernels': (3,), 'strides': (1,), 'activation': 'relu', 'scale': 1.0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (a game of pictures in gymnax)."""
  arg = parse_arg(arg, smoke=False, env='Breakout-MinAtar')
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  config.env = {'name': f'gymnax:{arg.env}'}
  for name, head in (('policy', 'categorical'), ('value', 'state_value')):
    network = {'name': head, 'hidden': (64,), 'activation': 'relu'}
    config.models[name] = {'name': 'convolutional', 'network': network, **CONVOLUTION}
  if not arg.smoke:
    config.steps = 120  # 983,040 steps of the environment
    config.rollout.update(num_envs=64, num_steps=128)
    config.updates.update(epochs=4, minibatches=8)
    config.optimizer.update(learning_rate=5e-4, decay_steps=3840)
    config.evals.episodes.update(every=20, episodes=32, max_steps=1000)
    config.checkpoint.every = 60
  return config
