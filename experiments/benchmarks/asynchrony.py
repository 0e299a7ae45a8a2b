"""What it gains to sample ahead of learning, where rewards come late and unevenly: seconds a step by lag.

    python -m rlx.experiments.benchmarks.asynchrony

GRPO on two-digit sums. The reward of a row comes after a time of its own, drawn from a heavy tail (Pareto,
a = 1.5), as a call of a tool or a judge would take; a batch waits for its longest. In the mean that is as
long as the device takes for a step, which is measured first. Without a lag the device waits meanwhile; with
one it learns and draws. The largest age that was seen, in updates, stands beside its bound.

After AsyncFlow (S074), https://arxiv.org/abs/2507.01663, whose stages are joined by a queue of single
samples; here a batch is what moves.
"""

import argparse
import dataclasses
import functools
import itertools
import statistics
import time

import jax
import numpy as np

from rlx import config as configs
from rlx.experiments.launch import use_compilation_cache
from rlx.run import states
from rlx.run.build import build
from rlx.split import SplitStep

TAIL = 1.5


def main() -> None:
  arguments = _parser().parse_args()
  use_compilation_cache()
  config = configs.load('quickstart/arithmetic').unlock()
  del config.sft
  config.stages = ('main',)
  config.rollout.batch_size, config.mesh.data = arguments.rows, 1
  run = build(config)
  stage, begin = run.stages[0], lambda: states.begin(run, 0, {}, 0)
  with jax.set_mesh(run.mesh):
    mean = _seconds_on_the_device(stage, begin())
    print(f'the device takes {mean:.2f} s a step; so does the longest of {arguments.rows} rewards')
    late = functools.partial(
        _late, stage.train_step, mean, num_rows=arguments.rows, num_steps=arguments.steps
    )
    pieces = {lag: SplitStep(late(), lag=lag) for lag in arguments.lags}
    seconds, oldest = {lag: [] for lag in arguments.lags}, {}
    for index in range(arguments.rounds + 1):  # the first compiles
      for lag, step in pieces.items():
        state, began = begin(), time.monotonic()
        _, metrics = step.repeat(state, stage.rollout.data, arguments.steps)
        oldest[lag] = int(metrics['rollout/policy_lag'].max())
        if index:
          seconds[lag].append((time.monotonic() - began) / arguments.steps)
  print('lag | oldest rows | seconds a step | speed beside no lag')
  for lag in arguments.lags:
    ratios = [alone / ahead for alone, ahead in zip(seconds[arguments.lags[0]], seconds[lag], strict=True)]
    print(f'{lag} | {oldest[lag]} | {statistics.median(seconds[lag]):.2f} | {statistics.median(ratios):.2f}')


def _seconds_on_the_device(stage, state) -> float:
  """Of a step whose rewards are there at once, in the mean of eight."""
  step, seconds = SplitStep(stage.train_step), []
  for _ in range(2):  # the first compiles
    began = time.monotonic()
    state, _ = step.repeat(state, stage.rollout.data, 8)
    seconds.append((time.monotonic() - began) / 8)
  return seconds[1]


def _late(train_step, seconds: float, *, num_rows: int, num_steps: int):
  """A train step whose rewards come late: the same delays in every round of so many steps, `seconds` in the
  mean. What is three times longer than usual is cut."""
  longest = np.random.default_rng(0).pareto(TAIL, (num_steps, num_rows)).max(axis=1)
  longest = np.minimum(longest, 3 * np.median(longest))
  delays, reward = itertools.cycle(seconds * longest / longest.mean()), jax.jit(train_step.reward)

  def late(models, rows, key):
    time.sleep(next(delays))
    return reward(models, rows, key)

  return dataclasses.replace(train_step, reward=late)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(description='Train steps a second by the lag of sampling.')
  parser.add_argument('--lags', type=int, nargs='+', default=[0, 1, 4])
  parser.add_argument('--rows', type=int, default=256)
  parser.add_argument('--steps', type=int, default=10)
  parser.add_argument('--rounds', type=int, default=3)
  return parser


if __name__ == '__main__':
  main()
