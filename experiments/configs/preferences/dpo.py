"""DPO of any Hugging Face directory on any file of comparisons: TRL's `DPOTrainer`, as a config.

    rlx --config=preferences/dpo:model=DIR,train=FILE,held_out=FILE --workdir=runs/dpo

Rows are `prompt, chosen, rejected` (strings or messages; without `prompt`, it is what both answers begin
with). Up to a tenth of them may be malformed: they are named and left out. The reference is the model as it
was, or with `lora_rank` the base. Another loss of `losses/preference.py`, and what it is taken of
(`losses/comparisons.py`), is a section:

    --config.algorithm.loss="{'name': 'ipo', 'beta': 0.1}" --config.algorithm.level="{'name': 'averaged'}"

With `stored=FILE.npz` the reference scores all rows once, before the first step, and its log-probs are kept
in that file, with a digest of the model and the rows, for runs to come: a step is then spared a forward pass,
and the run a second copy of the weights (`run/stored.py`).

The model of the end is in `runs/dpo/model`. Paper: https://arxiv.org/abs/2305.18290.

Result: on comparisons of people and a small decoder made from nothing (docs/studies/harmless.md) the better
of two held-out answers gains more in 58.8 % after 60 steps at 1e-4. No pretrained model was at hand.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.llm import sft
from rlx.experiments.data import FOLDER

DEFAULTS = {
    'train': f'{FOLDER}/pairs_train.jsonl',
    'held_out': f'{FOLDER}/pairs_test.jsonl',
    'stored': '',  # where the reference's log-probs are kept; '' has it score every batch
}


def get_config(arg: str = '', **defaults) -> ConfigDict:
  """Arguments: those of `llm/sft.py`, where `completion` makes no difference, and `stored`."""
  defaults = {**DEFAULTS, **defaults}
  config = sft.get_config(arg, **defaults)
  stored = parse_arg(arg, **{**sft.DEFAULTS, **defaults}).stored
  smoke, lora = config.steps < 10, 'base' in config.models
  if 'window_rows' not in config.task:  # of rows that are read as they are drawn nobody knows a share
    with config.task.ignore_type():
      config.task.malformed = 0.1  # the largest share of rows that is left out
  config.slow = {'base': 'base'} if lora else {'reference': 'policy'}  # as it was when the run began
  reference = 'base' if lora else 'reference'
  if stored:
    scores = {'name': 'stored', 'names': {'policy': 'base' if lora else 'policy'}, 'file': stored}
    config.models.stored = {**scores, 'batch_size': 8 if smoke else 32}
    config.slow = {**({'base': 'base'} if lora else {}), 'stored': 'stored'}
    reference = 'stored'
  config.rollout = {'name': 'pairs.comparisons', 'batch_size': 8 if smoke else 32}  # rows, two a comparison
  config.algorithm = {
      'name': 'dpo',
      'names': {'reference': reference},
      'loss': {'name': 'sigmoid', 'beta': 0.1},
  }
  config.optimizer.learning_rate = 1e-5 if lora else 1e-6  # of a pretrained model; 1e-4 of a random one
  if config.evals:
    names = {'reference': reference}
    every = config.evals.held_out.every
    pairs = 16 if config.task.held_out.startswith(FOLDER) else 64
    config.evals.held_out = {'name': 'implicit', 'names': names, 'every': every, 'pairs': pairs}
  config.log.headline = 'eval/held_out/accuracy' if config.evals else 'preference/right'
  return config
