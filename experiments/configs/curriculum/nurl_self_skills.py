"""NuRL with hints of the policy's own, written from the right answer; but for that, `nurl_skills.py`.

    rlx --config=curriculum/nurl_self_skills --workdir=runs/nurl_self

Paper: https://arxiv.org/abs/2509.25666. Here the present policy writes them, not the one before training.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
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


def claim() -> Claim:
  """Groups are sampled once, as many rows of a batch; hints and second attempts come on top."""
  return Claim(
      paper='S217',
      says='hints of its own where a group has no success lift what GRPO cannot learn',
      argument='small,steps=3',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'rollout': nurl_skills.COMPLETIONS}),
      minutes=6.0,
  )
