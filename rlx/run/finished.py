"""A model of another working directory, as a kind of model: where one run ends, another begins."""

from pathlib import Path

import jax
import jax.numpy as jnp

from rlx import config as configs
from rlx import sharding
from rlx.errors import ConfigError
from rlx.models.model import Model
from rlx.run import states, train
from rlx.run.build import build


def run(*, directory: str, model: str) -> Model:
  """A model that another run has trained, as it was at that run's newest checkpoint.

  Args:
    directory: the working directory of that run.
    model: its name there. What it stands on comes with it: of a LoRA, the base with its adapters.
  Raises:
    ConfigError: there is no such run or no such model, or it is the run of a population.
  """
  path = Path(directory) / 'config.json'
  if not path.exists():
    raise ConfigError(f'{directory} is no working directory of a run: it has no config.json')
  finished = build(configs.load(str(path)))
  if finished.population > 1:
    raise ConfigError(f'{directory} holds a population of {finished.population}; a model comes from one run')
  last = finished.stages[-1]
  if model not in last.own:
    raise ConfigError(f'the last stage of {directory} has no model {model!r}; it has {sorted(last.own)}')
  functions = last.kind(model).model.functions
  abstract = jax.eval_shape(lambda: last.view(_abstract(finished))[model])
  axes = last.kind(model).model.axes

  def load(mesh: jax.sharding.Mesh):
    with jax.set_mesh(finished.mesh):
      models, _ = train.restore_models(finished, directory)
    return jax.device_put(models[model], sharding.shardings(abstract, mesh, axes))

  return Model(
      functions=functions, init=lambda key, models: _zeros(abstract), load=load,
      source=str(train.newest_checkpoint(directory)), axes=axes, made_for=finished.task,
  )


def _abstract(finished):
  """Zeros in the shapes of the models of a run's last stage, to be traced."""
  state, frozen = states.abstract_state(finished, len(finished.stages) - 1)
  return _zeros({**frozen, **state.models})


def _zeros(shapes):
  return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
