"""A process reward model of any Hugging Face directory from any file of labelled steps: TRL's `PRMTrainer`.

    rlx --config=preferences/steps:model=DIR,train=FILE --workdir=runs/steps

Rows are `prompt, completions, labels`: the steps of an answer, and of each whether it is right, true or
false, or a number in [0, 1]. A line break stands behind each step. A copy of the decoder with a head says a
number behind each step, the log-odds that the answer is right so far (`algorithms/stepwise.py`). On held-out
rows it is asked for the first wrong step, as ProcessBench does.

Paper: https://arxiv.org/abs/2305.20050.

Result: on a small decoder from nothing that solves 14 % of sums in three steps (docs/studies/solutions.md,
median of three seeds) it says a higher number behind a right step than behind a wrong one in 70 % of pairs,
and names the first wrong step of 18 %, F1 28 %. No pretrained model was at hand.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.preferences import dpo
from rlx.experiments.data import FOLDER

DEFAULTS = {
    'train': f'{FOLDER}/steps_train.jsonl',
    'held_out': f'{FOLDER}/steps_test.jsonl',
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py`, but `stored`."""
  config = dpo.get_config(arg, **DEFAULTS)
  config.models.process = {'name': 'value_head'}  # on a copy of the policy's decoder
  config.trained = ('process',)
  config.slow = {'policy': 'policy'}
  del config['decoding']  # nobody speaks
  config.rollout.name = 'pairs.stepwise'
  config.algorithm = {'name': 'stepwise'}
  config.optimizer.learning_rate = 1e-5  # of a pretrained model; 1e-4 of a random one
  if config.evals:
    rows = 16 if config.task.held_out.startswith(FOLDER) else 64
    config.evals.held_out = {'name': 'steps.labelled', 'every': config.evals.held_out.every, 'rows': rows}
  config.log.headline = 'eval/held_out/f1' if config.evals else 'process/right'
  return config
