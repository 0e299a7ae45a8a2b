"""A reward model that learns beside the policy, where an answer is easier to check than to find: sorting.

    rlx --config=experiments/configs/stages/judge_sorting.py --workdir=runs/judge
    rlx --config=experiments/configs/stages/judge_sorting.py:judge_learns=False --workdir=runs/judge_fixed

Models, stages and learners are those of `judge_arithmetic`; four digits are to be put in order.

Paper: Cooper, https://arxiv.org/abs/2508.05613.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.stages import judge_arithmetic

LENGTH = 4  # digits


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `judge_learns`."""
  config = judge_arithmetic.get_config(arg)
  config.task = {'name': 'sorting', 'length': LENGTH, 'held_out_share': 0.1}
  del config.sft['task']
  for section in (config.decoding, config.sft.decoding, config.label.decoding):
    section.max_tokens = LENGTH + 1
  return config
