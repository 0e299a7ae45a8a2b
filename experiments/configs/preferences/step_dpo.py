"""Step-DPO of any Hugging Face directory on solutions that part at the first wrong step.

    rlx --config=preferences/step_dpo:model=DIR,train=FILE,held_out=FILE --workdir=runs/step_dpo

Rows are `prompt, chosen, rejected`, where both answers are lists of steps (strings): the same right ones to
begin with, then the wrong step and one that is right in its place. What follows may stand there, and is not
read. Any loss of `losses/preference.py` takes the place of DPO's, as in `preferences/dpo`.

Rows in which the steps before stand by themselves (as in the authors' Math-Step-DPO-10K) need no lists:
`preferences/dpo:prompt={prompt}{initial_reason_steps}` is then the same loss.

Paper: https://arxiv.org/abs/2406.18629.

Result: it does not help a small decoder from nothing that solves 14 % of sums in three steps
(docs/studies/solutions.md, median of three seeds): 150 steps at 1e-4 take it to 7 % (DPO on whole answers:
to 8 %), more SFT to 26 %. The better answer gains more than the worse in 63 % of held-out comparisons, for
both become less likely. No pretrained model was at hand.
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
