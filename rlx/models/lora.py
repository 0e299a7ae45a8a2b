"""A model that is another one with adapters: LoRA, and what is trained of a model in part.

The adapters (`adapters.py`) are all its parameters; it stands on another model, its base. What algorithms see
under its name is the base with the adapters attached: they, rollouts and scorers know nothing of it. The base
itself can be the reference, so policy and reference share their weights; gradients and optimizer moments are
as large as the adapters, lagging copies as well, and the base is never copied.
"""

import functools
import logging
import os
from pathlib import Path

import jax
import jax.numpy as jnp

from rlx.models import hf, peft
from rlx.models.adapters import Adapters, Lora, attach, init, merge, plain
from rlx.models.language import LanguageModel
from rlx.models.model import Model
from rlx.models.transformer import Params
from rlx.types import Models

_logger = logging.getLogger(__name__)


def lora(
    base: LanguageModel, *, rank: int, alpha: float, targets: str, full: str, directory: str
) -> Model:
  """A model that is another one with adapters: its own parameters are the adapters alone.

  Args:
    base: what it stands on, by default the model `base`; another by `names: {'base': ...}`. Several can stand
      on one.
    rank: as for `Lora`.
    alpha: as for `Lora`.
    targets: as for `Lora`.
    full: as for `Lora`.
    directory: of PEFT adapters to begin from; '' for fresh ones.
  Raises:
    ValueError: the numbers do not go together, or the directory holds other adapters.
  """
  how = Lora(rank=rank, alpha=alpha, targets=targets, full=full)

  def load(mesh):
    del mesh
    adapters, found = peft.load(directory, base.shape, family=hf.family_of(base.directory))
    wanted = jax.eval_shape(functools.partial(init, lora=how), jax.random.key(0), _abstract(base))
    shapes = lambda tree: jax.tree.map(jnp.shape, tree)
    if shapes(adapters) != shapes(wanted) or found.alpha != alpha:
      raise ValueError(f'the section says {how}, but {directory} holds {found}')
    return adapters

  def save(folder: Path, own: Adapters, models: Models) -> tuple[Path, ...]:
    hf.export(base.directory, folder / 'model', merge(models['base'], own, how), base.shape)
    try:
      peft.save(
          folder / 'adapter', own, how, base.shape, family=hf.family_of(base.directory),
          base_model=os.path.abspath(base.directory),
      )
    except ValueError as error:  # some adapters are more than PEFT can say; the merged model is there
      _logger.warning(f'{folder / "adapter"} is left out: {error}')
      return (folder / 'model',)
    return folder / 'model', folder / 'adapter'

  return Model(
      functions=base, init=lambda key, models: init(key, models['base'], how), stands_on=('base',),
      view=lambda own, models: attach(models['base'], own, how), load=load if directory else None,
      source=directory, save=save if base.directory else None, axes=base.axes,
  )


def merged(of: LanguageModel) -> Model:
  """A decoder of plain weights that begins as another with its adapters added up, W + α/r A B.

  Args:
    of: what it begins from, a LoRA; `names: {'of': ...}` says which.
  """
  return Model(functions=of, init=lambda key, models: plain(models['of']), axes=of.axes)


def _abstract(base: LanguageModel) -> Params:
  return jax.eval_shape(base.init, jax.random.key(0))
