"""What other tools can load of a run: a Hugging Face directory, or PEFT adapters beside their base."""

from pathlib import Path

from rlx.errors import ConfigError
from rlx.models import hf
from rlx.run.stages import NamedModel, Run
from rlx.types import Models


def check(run: Run, directory: Path) -> None:
  """Looks, before anything is trained, whether the places of the weights that `export` writes are free.

  Adapters have a place of their own, which is looked at when they are written.

  Raises:
    ConfigError: something else than an earlier export stands there.
  """
  for name, _ in _saved(run, len(run.stages) - 1):
    try:
      hf.check_place(_folder(directory, name) / 'model')
    except ValueError as error:
      raise ConfigError(str(error)) from error


def export(run: Run, models: Models, stage: int, directory: Path) -> tuple[Path, ...]:
  """Writes the models that a stage trains, as far as each can be saved for others.

  The model `policy` is written into the directory itself, others into a folder of their name.

  Args:
    run: from `build`.
    models: own parameters of those of the stage, the frozen ones with them.
    stage: its index.
    directory: gets `model/` (all weights, adapters merged into them) and, of a LoRA, `adapter/` where PEFT's
      format can express it. What stands there from an earlier export is replaced.
  Returns:
    The directories that were written; none for models that are described by the config alone.
  Raises:
    ConfigError: something else than an earlier export stands there.
  """
  shown = run.stages[stage].view(models)
  written: tuple[Path, ...] = ()
  for name, kind in _saved(run, stage):
    bases = {role: shown[asked] for role, asked in kind.roles.items() if asked in shown}
    try:
      written += kind.model.save(_folder(directory, name), models[name], bases)
    except ValueError as error:
      raise ConfigError(str(error)) from error
  return written


def _saved(run: Run, stage: int) -> list[tuple[str, NamedModel]]:
  """The trained models of a stage that others can load; of a population none is."""
  at = run.stages[stage]
  kinds = [(name, at.kind(name)) for name in at.trained]
  return [] if run.population > 1 else [(name, kind) for name, kind in kinds if kind.model.save is not None]


def _folder(directory: Path, name: str) -> Path:
  return Path(directory) if name == 'policy' else Path(directory) / name
