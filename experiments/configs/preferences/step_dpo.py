"""Step-DPO of any Hugging Face directory on solutions that part at the first wrong step.

    rlx --config=preferences/step_dpo:model=DIR,train=FILE,held_out=FILE --workdir=runs/step_dpo

Rows are `prompt, chosen, rejected`, where both answers are lists of steps (strings): the same right ones to
begin with, then the wrong step and one that is right in its place. What follows may stand there, and is not
read. Any loss of `losses/preference.py` takes the place of DPO's, as in `preferences/dpo`.

Rows in which the steps before stand by themselves (as in the authors' Math-Step-DPO-10K) need no lists:
`preferences/dpo:prompt={prompt}{initial_reason_steps}` is then the same loss.

Paper: https://arxiv.org/abs/2406.18629.

Result: none that says what it can do: no pretrained model was at hand. `:smoke` takes 4 steps of the 30
thousand random parameters in `experiments/data`; it runs, and is exported.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.preferences import dpo
from rlx.experiments.data import FOLDER

DEFAULTS = {
    'train': f'{FOLDER}/step_pairs_train.jsonl',
    'held_out': f'{FOLDER}/step_pairs_test.jsonl',
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py`."""
  config = dpo.get_config(arg, **DEFAULTS)
  config.rollout = {'name': 'pairs.parting_steps', 'rollout': config.rollout.to_dict()}
  return config
