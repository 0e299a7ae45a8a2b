"""PPO on MinAtar's Breakout, by gymnax: pictures of 10 x 10 x 4, whose numbers a network of two layers takes.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347; Young and Tian, 2019,
https://arxiv.org/abs/1903.03176 (the game)

    pip install 'rlx[gymnax]'
    rlx --config=control/gymnax_ppo_breakout --workdir=runs/gymnax_ppo_breakout --config.population.size=5

Result: five seeds, 1,966,080 steps of the environment each (gymnax 1.0.1): the most probable actions return
43.5 (median; worst seed 29, best 63), before training 0.5; 246 seconds for all on one core of a CPU. An
entropy bonus of 0.01 was too little: with it, a trial seed stayed at exactly 7 from 330,000 of a million
steps on and at 23 from a million of two, where the rate falls slower, and the ten of a study with rejax's
numbers (0.01, a million steps) at 6, in rlx and in rejax alike. A search through the states of the game finds
ways past 7.

With the other games, as many steps and seeds (none of these numbers were chosen for them): Asterix 4.9 (worst
4.1), SpaceInvaders 156 (worst 152).

With `:convolution` five seeds of Breakout return 58 (worst 36.5, best 73) after as many steps, 44 minutes on
two cores that other work shared.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole

CONVOLUTION = {'channels': (16,), 'kernels': (3,), 'strides': (1,), 'activation': 'relu', 'scale': 1.0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (a game of pictures in gymnax), `convolution` (one in
  front of each network, as the game's authors have one)."""
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
