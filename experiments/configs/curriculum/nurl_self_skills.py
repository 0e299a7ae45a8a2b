"""NuRL with hints of the policy's own, written from the right answer; but for that, `nurl_skills.py`.

    rlx --config=curriculum/nurl_self_skills --workdir=runs/nurl_self

Paper: https://arxiv.org/abs/2509.25666. Here the present policy writes them, not the one before training.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.curriculum import nurl_skills


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `steps`)."""
  config = nurl_skills.get_config(arg)
  sizes = {name: config.rollout[name] for name in ('batch_size', 'group_size', 'num_slots', 'num_retried')}
  config.rollout = {
      'name': 'inject.self_hinted',
      **sizes,
      'hint_tokens': config.task.max_steps - 1,  # an answer has one more
      'kept_rows': 1,
  }
  return config
