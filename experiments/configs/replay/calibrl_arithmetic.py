"""CalibRL on addition: a tenth of the problems have an expert's answer, which says how sure to be.

    rlx --config=replay/calibrl_arithmetic --workdir=runs/calibrl

Paper: https://arxiv.org/abs/2602.20197 (Controllable Exploration in Hybrid-Policy RLVR); its images are left
out, for nothing in it needs them.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic

SAMPLES = {'name': 'prompts.completions', 'batch_size': 128, 'group_size': 8, 'num_slots': 0}
MIX = {
    'name': 'red',
    'clip_low': 0.2,
    'clip_high': 0.2,
    'kl': {'name': 'no_kl'},
    'weight_min': 1.0,
    'weight_max': 1.0,  # fixed
    'keep': 0.0,
    'accuracy_min': 0.0,  # the ratio of the policy at the start of the update: plain imitation
    'gamma': 0.1,
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart, half of its rows)."""
  config = arithmetic.get_config(arg, steps=600)
  arg = parse_arg(arg, smoke=False, small=False)
  config.population.size = 5
  config.rollout = {
      'name': 'demonstrated.measured',
      'batch_size': config.rollout.batch_size if arg.smoke else 128,
      'group_size': 8,
      'num_slots': 0,
      'shown_share': 0.1,  # of all problems have an expert's answer
  }
  config.updates.microbatches = 1
  config.algorithm = {
      'name': 'calibrl',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'guided_coef': 0.1,
      'slope': 0.5,  # as in the authors' code
  }
  return config
