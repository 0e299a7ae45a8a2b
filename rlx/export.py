"""What other tools can load of a run: a Hugging Face directory, or PEFT adapters beside their base."""

import os
from pathlib import Path
import shutil

from rlx.config import ConfigError, Run
from rlx.models import hf, lora
from rlx.types import State


def export(run: Run, state: State, stage: int, directory: Path) -> tuple[Path, ...]:
  """Writes the policy of a state, if its model came from a Hugging Face directory.

  Args:
    run: from `config.build`.
    state: of the stage.
    stage: its index.
    directory: gets `model/` (all weights, adapters merged into them) and, of a LoRA run, `adapter/` in PEFT's
      format. What stands there from an earlier export is replaced.
  Returns:
    The directories that were written; none for a model that is described by the config alone.
  """
  if run.config.model.name != 'hf' or run.population > 1:
    return ()
  source, policy = run.config.model.directory, state.models.get('policy')
  written = [Path(directory) / 'model']
  if 'adapters' in state.params:
    adapters, how = state.params['adapters'], run.stages[stage].lora
    written.append(Path(directory) / 'adapter')
    _replace(written[-1])
    lora.save_peft(
        written[-1], adapters, how, run.model, family=hf.family_of(source),
        base_model=os.path.abspath(source),
    )
    policy = lora.merge(state.slow['base'], adapters, how)
  _replace(written[0])
  hf.export(source, written[0], policy, run.model)
  return tuple(written)


def _replace(directory: Path) -> None:
  """Removes an earlier export, and nothing that is not one."""
  if not directory.exists():
    return
  if not (directory / 'config.json').exists() and not (directory / 'adapter_config.json').exists():
    raise ConfigError(f'{directory} is in the way and is no exported model; move it, or choose another place')
  shutil.rmtree(directory)
