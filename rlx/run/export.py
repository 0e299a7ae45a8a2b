"""What other tools can load of a run: a Hugging Face directory, or PEFT adapters beside their base."""

import logging
import os
from pathlib import Path

from rlx.config import Run
from rlx.errors import ConfigError
from rlx.models import hf, lora
from rlx.types import State

_logger = logging.getLogger(__name__)

def export(run: Run, state: State, stage: int, directory: Path) -> tuple[Path, ...]:
  """Writes the policy of a state, if its model came from a Hugging Face directory.

  Args:
    run: from `config.build`.
    state: of the stage.
    stage: its index.
    directory: gets `model/` (all weights, adapters merged into them) and, of a LoRA run, `adapter/` where
      PEFT's format can express it. What stands there from an earlier export is replaced.
  Returns:
    The directories that were written; none for a model that is described by the config alone.
  Raises:
    ConfigError: something else than an earlier export stands in `model/`.
  """
  if run.model is None or run.config.model.name != 'hf' or run.population > 1:
    return ()
  source, how = run.config.model.directory, run.stages[stage].lora
  model, adapter = Path(directory) / 'model', Path(directory) / 'adapter'
  adapters = state.params.get('adapters')
  policy = state.models['policy'] if how is None else lora.merge(state.slow['base'], adapters, how)
  try:
    hf.export(source, model, policy, run.model)
  except ValueError as error:
    raise ConfigError(str(error)) from error
  if how is None:
    return (model,)
  try:
    lora.save_peft(
        adapter, adapters, how, run.model, family=hf.family_of(source), base_model=os.path.abspath(source)
    )
  except ValueError as error:  # some adapters are more than PEFT can say; the merged model is there
    _logger.warning(f'{adapter} is left out: {error}')
    return (model,)
  return model, adapter
