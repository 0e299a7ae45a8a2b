"""CLPO on chains of skills: hard problems are asked with the first values told, medium ones step by step.

    rlx --config=curriculum/clpo_skills --workdir=runs/clpo

Paper: https://arxiv.org/abs/2509.25004. There, the policy rewrites the problems.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 340 train steps, median of 5 seeds
(worst): 0.583 (0.3337), 'GRPO' 0.7127 (0.4127). Claimed, and got (95 % interval over seeds): above 'GRPO',
got -0.1173 (-0.1968 to -0.02589), the reverse holds; mean over the run of reward/zero_variance_fraction:
below 'GRPO', got 0.006397 (-0.0138 to 0.03627), the seeds leave it open. 228 CPU-s on 1 cores of a CPU;
`rlx reproduce curriculum/clpo_skills`.

With five steps, behind an SFT of half of the skills, hardly a problem is solved: 0.018 (0.015) beside 0.024
(0.014) by GRPO, five seeds; with three, GRPO was above as well, three trial seeds. With the `rumours` of
`nurl_skills.py`, in batches of 128 rows, three others came to 0.05 in the median, and to 0.17 by GRPO.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import nurl_skills
from rlx.experiments.configs.quickstart.arithmetic import GRPO


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `small`, `steps`, here of the longest problems)."""
  arg = parse_arg(arg, smoke=False, small=False, steps=4)
  config = nurl_skills.get_config(f'smoke={arg.smoke},small={arg.small},steps={arg.steps}')
  config.task.min_steps = 1
  rows = config.rollout.batch_size
  config.rollout = {
      'name': 'restructured',
      'batch_size': rows,
      'group_size': 8,
      'num_slots': 0,
      'num_restructured': rows // 16,  # half of the groups
      'hard_form': 'hinted',
      'medium_form': 'decomposed',
      'hard_max': 0.3,  # accuracy of a group; the authors' code
      'medium_max': 0.7,  # the authors' code
  }
  config.sft.task = config.task  # all skills, for some problems to be easy and some hard
  config.sft.stop.at_least = 0.15
  config.sft.rollout.forms = ('', 'hinted', 'decomposed')
  config.slow = {'reference': 'policy'}
  config.algorithm = {
      'name': 'clpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'kl_in_loss', 'coef': 1e-3},  # the authors' code
      'hard_scale': 0.5,  # the authors' code
      'entropy_coef': 0.0,
  }
  return config


def claim() -> Claim:
  """Beside GRPO with the same KL, on as many rows, all of them of problems as they are."""
  return Claim(
      paper='S212',
      says='with hard problems made easier and medium ones asked otherwise fewer groups teach nothing, and '
      'problems as they are come to be solved more often than by GRPO',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(
          above('GRPO'), above('GRPO', reading=mean('reward/zero_variance_fraction', lower=True)),
      ),
      baseline=Arm('GRPO', {
          'rollout': nurl_skills.COMPLETIONS,
          'algorithm': {**GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 1e-3}},
      }),
      minutes=6.0,
  )
