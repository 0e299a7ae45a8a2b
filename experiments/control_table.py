"""What the control configs reach: a table of task, steps, seconds, and the returns of ten seeds.

    python -m rlx.experiments.control_table control/ppo_cartpole ...

Runs each config with `population.size=10`, all seeds in one program, without writing a run, and prints a row
of `docs/control.md`: interquartile mean of the seeds' last evaluation with its 95 % bootstrap interval, the
worst seed, and the score between random (0) and expert (100). Seconds are those of the ten seeds together.
"""

import argparse
from pathlib import Path
import time

import jax
import numpy as np

from rlx import config as configs
from rlx.evaluation import aggregates
from rlx.run import examining, states
from rlx.run.build import build
from rlx.run.stages import Run

SEEDS = 10
HEADER = """\
| config | environment | train steps | env steps | seconds | IQM (95 %) | worst | score |
|---|---|---|---|---|---|---|---|"""


def main() -> None:
  parser = argparse.ArgumentParser(description='Ten seeds of control configs, as rows of a table.')
  parser.add_argument('configs', nargs='+', metavar='FILE[:ARG]')
  parser.add_argument('--seeds', type=int, default=SEEDS)
  arguments = parser.parse_args()
  print(HEADER, flush=True)
  for path in arguments.configs:
    print(row(path, arguments.seeds), flush=True)


def row(path: str, seeds: int) -> str:
  """A row of the table: runs all stages of a config for several seeds at once."""
  config = configs.load(path)
  config.population.size = seeds
  config.log.steps_per_dispatch = _largest_dispatch(config)
  began = time.monotonic()
  run = build(config)
  returns, env_steps, num_steps = last_returns(run)
  seconds = time.monotonic() - began
  low, high = aggregates.bootstrap_interval(returns[:, None], aggregates.interquartile_mean)
  iqm = aggregates.interquartile_mean(returns[:, None])
  return (
      f'| {Path(path.partition(":")[0]).stem} | {config.env.name} | {num_steps:,} | {env_steps:,.0f} '
      f'| {seconds:.0f} | {iqm:.1f} ({low:.1f} to {high:.1f}) | {returns.min():.1f} '
      f'| {run.task.score(iqm):.0f} |'
  )


def last_returns(run: Run) -> tuple[np.ndarray, float, int]:
  """Trains a population through all stages.

  Returns:
    The return of every seed's policy [seeds], environment steps of each, and train steps.
  """
  env_steps, num_steps, models, state = 0.0, 0, {}, None
  with jax.set_mesh(run.mesh):
    for index, stage in enumerate(run.stages):
      state = states.begin(run, index, models, num_steps)
      data = jax.device_put(stage.rollout.data)
      for _ in range(stage.num_steps // run.log.steps_per_dispatch):
        state, metrics = stage.program.dispatch(state, data, {})
        env_steps += float(metrics['env/steps'][0].sum()) if 'env/steps' in metrics else 0.0
      models, num_steps = state.models, num_steps + stage.num_steps
    episodes = next(exam for exam in run.evals if exam.name == 'episodes')
    asked = examining.make_ask(run, run.stages[-1], episodes)(state.models, state.world, {})
  return np.asarray(asked['return']), env_steps, num_steps


def _largest_dispatch(config) -> int:
  """Steps in one program: as many as divide the steps of every stage and what is done every so often."""
  stages = [config if name == 'main' else config[name] for name in config.stages]
  counts = [section.steps for section in stages] + [section.every for section in config.evals.values()]
  return int(np.gcd.reduce([*counts, config.checkpoint.every]))


if __name__ == '__main__':
  main()
