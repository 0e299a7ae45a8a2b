"""NuRL with hints of the policy's own, written from the right answer; but for that, `nurl_skills.py`.

    rlx --config=curriculum/nurl_self_skills --workdir=runs/nurl_self
    rlx --config=curriculum/nurl_self_skills:small,steps=4,rumours --workdir=runs/nurl_self  # what is claimed

Paper: https://arxiv.org/abs/2509.25666. Here the present policy writes them, not the one before training.

With `rumours`, and without its bonus for entropy, ten trial seeds ended at 0 in the median, and at 0.22 at
best. Three others came to 0.03, 0.03 and 0.2, with the hints of `nurl_skills.py` to 0, 0.03 and 0.2, and by
GRPO to nothing; with a KL of 1e-3 hints of its own came to 0, 0 and 0.22, and GRPO, behind other lessons, to
0.03, 0.17 and 0.18.

In chains of three steps of six skills, half of which SFT taught, the reverse held, which was claimed before:
0.1197 beside 0.156 by GRPO, medians of five seeds; beside GRPO with as many rows as there are in a batch, of
which hints and second attempts cost half as many again, the seeds left it open: 0.1197 beside 0.093.

Result: it shows. Mean of the last 3 eval/held_out/accuracy after 103,360 rollouts, median of 5 seeds (worst):
0.06444 (0), 'GRPO' 0 (0). Claimed, and got (95 % interval over seeds): above 'GRPO', got 0.06704 (0.01667 to
0.1126). 567 CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/nurl_self_skills`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import nurl_skills


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `small`, `steps`, `rumours`)."""
  config = nurl_skills.get_config(arg)
  sizes = {name: config.rollout[name] for name in ('batch_size', 'group_size', 'num_slots', 'num_retried')}
  config.rollout = {
      'name': 'inject.self_hinted',
      **sizes,
      'hint_tokens': config.task.max_steps - 1,  # an answer has one more
      'kept_rows': 1,
  }
  config.sft.rollout.forms = ('', 'hinted', 'asking')
  return config


def claim() -> Claim:
  """Groups are sampled once, and as many rows as with the hints, one a group, and the second attempts."""
  rows = 2 * nurl_skills.FEW + nurl_skills.FEW // 8
  return Claim(
      paper='S217',
      says='hints of its own where a group has no success lift what GRPO does not learn, at equal rollouts',
      argument='small,steps=4,rumours=True',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('GRPO'),),
      cost=rows,
      budget_name='rollouts',
      baseline=Arm('GRPO', {'rollout': {**nurl_skills.COMPLETIONS, 'batch_size': rows}}, cost=rows),
      minutes=8.0,
  )
