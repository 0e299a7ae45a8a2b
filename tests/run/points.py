"""The smallest runs there are: points that go to a target. Their parts are in `pieces.py`, in `HERE`."""

from pathlib import Path

from ml_collections import ConfigDict

HERE = str(Path(__file__).parent)
ADAM = {'name': 'adam', 'learning_rate': 0.1, 'b1': 0.9, 'b2': 0.99, 'eps': 1e-8}
EVERY = 2  # steps of a dispatch


def stage(point='point', *, target=1.0, steps=4, **more) -> dict:
  """A stage that moves a point."""
  made = {
      'steps': steps, 'stop': {}, 'rollout': {'name': 'pieces.noise', 'rows': 8, 'size': 3}, 'slow': {},
      'algorithm': {'name': 'pieces.nearer', 'target': target, 'names': {'point': point}},
      'trained': (point,), 'optimizer': ADAM, 'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1},
      **more,
  }
  return {name: value for name, value in made.items() if value is not None}


def config_of(stages, *, population=1, main=None, models=('point',), **sections) -> ConfigDict:
  """A run of points; every stage but `main` is a section."""
  config = ConfigDict({
      'seed': 0, 'population': {'size': population}, 'mesh': {'data': 1, 'fsdp': 1, 'tensor': 1},
      'stages': tuple(stages), 'env': {'name': 'cartpole', 'max_steps': 5},
      'models': {name: {'name': 'pieces.point', 'size': 3} for name in models},
      'evals': {'all': {'name': 'pieces.seen', 'every': 4}}, 'checkpoint': {'every': 2, 'keep': 20},
      'log': {'steps_per_dispatch': EVERY, 'samples': 0, 'headline': 'eval/all/models'},
      **(main or stage()), **sections,
  })
  return config


def spoilt_gradients(share, *, steps):
  """A run of which a share of the gradients is NaN."""
  config = config_of(('main',), main=stage(steps=steps))
  config.algorithm = {
      'name': 'rlx.testing.hostile.nan_gradients', 'share': share, 'parent': config.algorithm.to_dict(),
  }
  return config


def spoilt_weights(at_update, *, steps):
  """A run whose weights become NaN."""
  optimizer = {'name': 'rlx.testing.hostile.nan_weights', 'at_update': at_update, 'optimizer': ADAM}
  return config_of(('main',), main=stage(steps=steps, optimizer=optimizer))
