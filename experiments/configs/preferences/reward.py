"""A reward model of any Hugging Face directory from any file of comparisons: TRL's `RewardTrainer`.

    rlx --config=preferences/reward:model=DIR,train=FILE,held_out=FILE --workdir=runs/reward

A copy of the decoder with a head that says a number behind the last token, by Bradley and Terry. The model of
the end is in `runs/reward/judge/model`: a directory for sequence classification with one label, which
transformers loads and `models.judge = {'name': 'classifier', ..}` reads.

Paper: https://arxiv.org/abs/2203.02155.

Result: on comparisons of people and a small decoder made from nothing (docs/studies/harmless.md) it is right
on 59.6, 63.6 and 64.1 % of held-out ones (three seeds; the shorter answer is better in 57 %) after 100 steps
at 3e-4. No pretrained model was at hand.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.preferences import dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/dpo.py`."""
  config = dpo.get_config(arg)
  config.models.judge = {'name': 'reward_head'}  # on a copy of the policy's decoder
  config.trained = ('judge',)
  config.slow = {'policy': 'policy'}
  del config['decoding']  # nobody speaks
  config.rollout.name = 'judged_comparisons'
  config.algorithm = {'name': 'bradley_terry', 'smoothing': 0.0, 'centring': 0.01}
  config.optimizer.learning_rate = 1e-5  # of a pretrained model; 1e-4 of a random one
  if config.evals:
    held_out = config.evals.held_out
    config.evals.held_out = {'name': 'preferences.judged', 'every': held_out.every, 'pairs': held_out.pairs}
  else:
    config.log.headline = 'judge/right'
  return config
