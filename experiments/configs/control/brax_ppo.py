"""PPO walks in Brax, on the device: normalised observations and rewards, as is the custom.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347; Freeman et al., 2021,
https://arxiv.org/abs/2106.13281 (Brax)

    pip install 'rlx[brax]'
    rlx --config=control/brax_ppo --workdir=runs/brax_ppo
    rlx --config=control/brax_ppo:env=ant --workdir=runs/brax_ppo_ant

Beside rejax's PPO, with its numbers: docs/studies/control.md.

Result: after 983,040 steps of hopper the interquartile mean of five seeds is 449, the worst 425; four
trial seeds ended at 370 to 704. Its numbers were not tuned. Ant was run by `:smoke` alone, and no other
environment.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import gym_ppo_continuous


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (a name of Brax), `backend` (of its physics: spring,
  positional, generalized or mjx)."""
  arg = parse_arg(arg, smoke=False, env='hopper', backend='spring')
  config = gym_ppo_continuous.get_config('smoke' if arg.smoke else '')
  config.mesh.data = -1
  config.env = {'name': f'brax:{arg.env}', 'backend': arg.backend}
  if not arg.smoke:
    config.steps = 960  # 983,040 steps of the environment
    config.rollout.inner.inner.update(num_envs=32, num_steps=32)
    config.updates.update(epochs=4, minibatches=4)
    config.optimizer.decay_steps = 960 * 16  # updates
    config.evals.episodes.every = 96
    config.checkpoint.every, config.log.steps_per_dispatch = 480, 32
  return config
