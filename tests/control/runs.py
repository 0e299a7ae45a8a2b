"""Configs of control as they stand, several seeds side by side in one program."""

from pathlib import Path

import jax
import numpy as np

from rlx import config as configs
from rlx.run import examining, states
from rlx.run.build import build

FOLDER = Path(__file__).parents[2] / 'experiments/configs/control'
SEEDS = 5


def learnt(name):
  """The return of each seed in the end, [SEEDS], and all metrics of training, [SEEDS, steps] each."""
  config = configs.load(str(FOLDER / f'{name}.py'))
  with config.unlocked():
    config.population.size, config.mesh.data = SEEDS, 1
  run = build(config)
  stage, rows = run.stages[0], []
  with jax.set_mesh(run.mesh):
    state, dispatch = states.begin(run, 0, {}, 0), stage.program.dispatch
    for _ in range(stage.num_steps // run.log.steps_per_dispatch):
      state, metrics = dispatch(state, stage.rollout.data)
      rows.append(jax.device_get(metrics))
    answer = examining.make_ask(run, stage, run.evals[0])(state.models, state.world, {})
  metrics = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *rows)
  return np.asarray(answer['return']), metrics
