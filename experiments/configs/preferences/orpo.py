"""ORPO of any Hugging Face directory on any file of comparisons: TRL's `ORPOTrainer`, without a reference.

    rlx --config=preferences/orpo:model=DIR,train=FILE,held_out=FILE --workdir=runs/orpo

SFT on the chosen answers and away from the rejected ones, in one stage, from a base model. `simpo`, `cpo`,
`alphapo` and `slic` take the same rows:

    --config.algorithm="{'name': 'simpo', 'beta': 2.0, 'margin': 1.0}"

Paper: https://arxiv.org/abs/2403.07691.

Result: on comparisons of people and a small decoder made from nothing (docs/studies/harmless.md) the better
of two held-out answers gains more in 58.8 % after 60 steps at 1e-4 (five seeds, worst 57.7), as with DPO. No
pretrained model was at hand.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.preferences import dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py`."""
  config = dpo.get_config(arg)
  config.algorithm = {'name': 'orpo', 'odds_coef': 0.1}
  config.optimizer.learning_rate = 8e-6  # of a pretrained base model
  if not config.evals and 'reference' in config.slow:
    del config.slow['reference']  # nobody asks for it
  return config
