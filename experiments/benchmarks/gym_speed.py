"""PPO on gymnasium's CartPole beside Stable-Baselines3, interleaved: A B A B in one run; prints environment
steps per CPU-second and second, and ratios.

    python3 -m venv sb3 && sb3/bin/pip install stable-baselines3==2.9.2
    python -m rlx.experiments.benchmarks.gym_speed --sb3_python=sb3/bin/python

Both sides step the same eight environments in Python, one after the other, and take the same numbers:
128 steps, 4 epochs of 4 minibatches, two networks of (64, 64). No evaluation. Each side runs in a process of
its own, which waits while the other works; the first round compiles and does not count.
"""

import argparse
import json
from pathlib import Path
import sys
import time

import numpy as np

from rlx.experiments.benchmarks.grpo_step import interleaved

NUM_ENVS, NUM_STEPS = 8, 128
TRAIN_STEPS = 20  # a round
ENV_STEPS = TRAIN_STEPS * NUM_ENVS * NUM_STEPS
HERE = Path(__file__).parent


def main() -> None:
  arguments = _parser().parse_args()
  if arguments.serve:
    serve()
    return
  sides = {'rlx': [sys.executable, '-m', 'rlx.experiments.benchmarks.gym_speed', '--serve']}
  for threads in arguments.torch_threads if arguments.sb3_python else ():
    command = [arguments.sb3_python, str(HERE / 'sb3_side.py'), str(threads), str(ENV_STEPS)]
    sides[f'sb3, {threads} threads'] = command
  show(interleaved(sides, arguments.rounds))


def show(reports: dict[str, list[dict]]) -> None:
  """A line a side: medians, and what rlx does of what the other does in the same time."""
  for unit in ('cpu', 'wall'):
    rates = {name: ENV_STEPS / np.median([row[unit] for row in rows]) for name, rows in reports.items()}
    for name, rate in rates.items():
      print(f'{name:<16}{unit:<5}{rate:>10,.0f} env steps / s   rlx / this {rates["rlx"] / rate:.2f}')


def serve() -> None:
  """The half that is rlx: a dispatch for each line that is read."""
  import jax

  from rlx import config as configs
  from rlx.run import states
  from rlx.run.build import build

  config = configs.load('experiments/configs/control/gym_ppo_cartpole.py').unlock()
  config.rollout.update(num_envs=NUM_ENVS, num_steps=NUM_STEPS)
  config.steps = config.checkpoint.every = config.log.steps_per_dispatch = TRAIN_STEPS
  config.evals.episodes.every = TRAIN_STEPS
  run = build(config)
  with jax.set_mesh(run.mesh):
    state, program = states.begin(run, 0, {}, 0), run.stages[0].program
    for _ in sys.stdin:
      cpu, wall = time.process_time(), time.monotonic()
      state, metrics = program.dispatch(state, None)
      jax.block_until_ready((state, metrics))
      took = {'cpu': time.process_time() - cpu, 'wall': time.monotonic() - wall}
      print(json.dumps(took), flush=True)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='PPO on gymnasium in rlx and Stable-Baselines3 in turn.')
  parser.add_argument('--sb3_python', default='', help='the interpreter of an environment with it')
  parser.add_argument('--torch_threads', type=int, nargs='+', default=[1])
  parser.add_argument('--rounds', type=int, default=5)
  parser.add_argument('--serve', action='store_true', help='be the half that is rlx')
  return parser


if __name__ == '__main__':
  main()
