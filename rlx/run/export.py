"""What other tools can load of a run: a Hugging Face directory, or PEFT adapters beside their base."""

from pathlib import Path

from rlx.errors import ConfigError
from rlx.run.stages import Run
from rlx.types import Models


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
  at = run.stages[stage]
  written: tuple[Path, ...] = ()
  if run.population > 1:
    return written
  shown = at.view(models)
  for name in at.trained:
    kind = at.kind(name)
    if kind.model.save is None:
      continue
    folder = Path(directory) if name == 'policy' else Path(directory) / name
    bases = {role: shown[asked] for role, asked in kind.roles.items() if asked in shown}
    try:
      written += kind.model.save(folder, models[name], bases)
    except ValueError as error:
      raise ConfigError(str(error)) from error
  return written
