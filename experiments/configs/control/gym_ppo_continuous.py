"""PPO on continuous actions of gymnasium, with observations and rewards normalised as is the custom there.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347

    pip install 'rlx[gym]'
    rlx --config=control/gym_ppo_continuous --workdir=runs/gym_ppo_continuous

Networks see observations by the moments of all that was learnt from, rewards are divided by the deviation of
their discounted sums. For MuJoCo: `pip install 'gymnasium[mujoco]'` and `:env=HalfCheetah-v5`.

Result: after 204,800 steps of the environment five seeds return -142 in the median on the mean of 32 episodes
of Pendulum (worst -160; the worst single episode -416); before, -1,151 to -1,184. 46 to 102 seconds a seed on
two cores that other work shared. No other environment was run.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `env` (any id of gymnasium with continuous actions)."""
  arg = parse_arg(arg, smoke=False, env='Pendulum-v1')
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  config.mesh.data = 1  # environments on the host feed one device
  config.env = {'name': f'gymnasium:{arg.env}'}
  policy = {'name': 'gaussian', 'hidden': (64, 64), 'activation': 'tanh', 'initial_log_std': 0.0}
  config.models.policy = {'name': 'normalised', 'network': policy, 'clip': 10.0}
  config.models.value = {'name': 'normalised', 'network': config.models.value.to_dict(), 'clip': 10.0}
  config.models.moments, config.slow.moments = {'name': 'moments'}, 'moments'
  scaled = {
      'name': 'scaled_by_returns', 'inner': config.rollout.to_dict(),
      'discount': config.algorithm.get_ref('discount'), 'clip': 10.0,
  }
  config.rollout = {'name': 'with_moments', 'inner': scaled}
  config.algorithm.update(entropy_coef=0.0, clip_low=0.2, clip_high=0.2, value_clip=0.2)
  config.optimizer.learning_rate = 3e-4
  if not arg.smoke:
    config.updates.update(epochs=10, minibatches=16)
    config.optimizer.decay_steps = 200 * 160  # updates
    config.evals.episodes.max_steps = 1000
  return config
