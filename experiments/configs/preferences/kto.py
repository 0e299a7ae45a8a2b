"""KTO of any Hugging Face directory on any file of labelled answers or of comparisons: TRL's `KTOTrainer`.

    rlx --config=preferences/kto:model=DIR,train=FILE,held_out=FILE --workdir=runs/kto

Rows are `prompt, completion, label` (true or false); or `prompt, chosen, rejected`, whose answers are taken
one by one. `held_out` holds comparisons. Paper: https://arxiv.org/abs/2402.01306.

Result: on comparisons of people and a small decoder made from nothing (docs/studies/harmless.md) the better
of two held-out answers gains more in 57.7 % after 60 steps at 1e-4. No pretrained model was at hand.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.preferences import dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py`."""
  config = dpo.get_config(arg)
  config.rollout.name = 'pairs.labelled'
  config.algorithm = {
      'name': 'kto',
      'names': config.algorithm.names.to_dict(),
      'beta': 0.1,
      'desirable': 1.0,
      'undesirable': 1.0,
  }
  if config.log.headline == 'preference/right':
    config.log.headline = 'preference/margin'
  return config
