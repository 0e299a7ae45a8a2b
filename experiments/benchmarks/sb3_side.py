"""The half of `gym_speed.py` that is Stable-Baselines3, in an environment of its own: no import of rlx.

Reads 'go' lines; answers each with the seconds that so many environment steps and their updates took.
"""

import json
import sys
import time

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
import torch


def main(threads: str, env_steps: str) -> None:
  torch.set_num_threads(int(threads))
  model = PPO(
      'MlpPolicy', make_vec_env('CartPole-v1', n_envs=8), n_steps=128, batch_size=256, n_epochs=4,
      learning_rate=1e-3, ent_coef=0.01, vf_coef=0.5, clip_range=0.2, clip_range_vf=10.0, max_grad_norm=0.5,
      policy_kwargs={'net_arch': {'pi': [64, 64], 'vf': [64, 64]}}, device='cpu', seed=0,
  )
  for _ in sys.stdin:
    cpu, wall = time.process_time(), time.monotonic()
    model.learn(total_timesteps=int(env_steps), reset_num_timesteps=False)
    print(json.dumps({'cpu': time.process_time() - cpu, 'wall': time.monotonic() - wall}), flush=True)


if __name__ == '__main__':
  main(*sys.argv[1:])
