"""CLPO on chains of skills: hard problems are asked with the first values told, medium ones step by step.

    rlx --config=curriculum/clpo_skills --workdir=runs/clpo
    rlx --config=curriculum/clpo_skills:small,steps=4,rumours --workdir=runs/rumours  # what is claimed

Paper: https://arxiv.org/abs/2509.25004. There, the policy rewrites the problems.

With the `rumours` of `nurl_skills.py` nearly no group of problems as they are has a success at first, and the
bonus for entropy is what that config says of it.

Where problems are within reach it did not show: of one to four steps, all of whose skills lessons had taught,
five seeds ended at 0.583 (0.334), and at 0.713 (0.413) by GRPO, with as many groups that taught nothing. With
five steps, behind an SFT of half of the skills, hardly a problem is solved: 0.018 (0.015) beside 0.024
(0.014) by GRPO, five seeds; with three, GRPO was above as well, three trial seeds. With `rumours` and without
the bonus, in batches of 128 rows, three others came to 0.05 in the median, and to 0.17 by GRPO.
With the bonus four trial seeds were at 0.87, 0.48, 0.17 and 0.37 after 380 of 500 steps, and by GRPO without
one at 0.03, 0.06, 0.16 and 0.08 after all of them. Of 500 steps five other seeds came to 0.22 (0.11), by GRPO
to nothing, and to 0.10 (0.05) without a bonus, which they left open (0.065, -0.055 to 0.229), and ten more to
0.26 (0), 0 (0) and 0.155 (0), which left it open again (0.161, -0.033 to 0.361). In the mean of these ten the
last 160 steps added 0.13, and 0.05 by GRPO without a bonus: so there are 800 now.

Result: it shows. Mean of the last 3 eval/held_out/accuracy after 1060 train steps, median of 10 seeds
(worst): 0.6433 (0), 'GRPO' 0 (0), 'GRPO without a bonus' 0.2083 (0). Claimed, and got (95 % interval over
seeds): above 'GRPO', got 0.6163 (0.3515 to 0.7715); mean over the run of reward/zero_variance_fraction: below
'GRPO', got 0.06252 (0.04715 to 0.0696); above 'GRPO without a bonus', got 0.3172 (0.115 to 0.5717). 2953
CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/clpo_skills`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import nurl_skills
from rlx.experiments.configs.quickstart.arithmetic import GRPO


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `small`, `steps`, `rumours`); without `rumours` there are
  problems of any length up to `steps`."""
  arg = parse_arg(arg, smoke=False, small=False, steps=4, rumours=False)
  config = nurl_skills.get_config(
      f'smoke={arg.smoke},small={arg.small},steps={arg.steps},rumours={arg.rumours}'
  )
  rows = config.rollout.batch_size
  if arg.rumours:
    rows *= 2  # there, second attempts are beside them
  else:
    config.task.min_steps = 1
    config.sft.task = config.task  # all skills, for some problems to be easy and some hard
    config.sft.stop.at_least = 0.15
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
  config.sft.rollout.forms = ('', 'hinted', 'decomposed')
  if arg.rumours and not arg.smoke:
    config.seed = 40  # the first ones had been looked at
    config.steps, config.optimizer.decay_steps = 800, 780
  config.slow = {'reference': 'policy'}
  config.algorithm = {
      'name': 'clpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'kl_in_loss', 'coef': 1e-3},  # the authors' code
      'hard_scale': 0.5,  # the authors' code
      'entropy_coef': config.algorithm.entropy_coef,
  }
  return config


def claim() -> Claim:
  """Beside GRPO with the same KL, on as many rows, all of them of problems as they are; with and without the
  bonus for entropy, which helps one of the two methods alone."""
  once = {**nurl_skills.COMPLETIONS, 'batch_size': 2 * nurl_skills.FEW}
  grpo = lambda bonus: {
      'rollout': once,
      'algorithm': {**GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 1e-3}, 'entropy_coef': bonus},
  }
  return Claim(
      paper='S212',
      says='with hard problems made easier and medium ones asked otherwise fewer groups teach nothing, and '
      'problems as they are come to be solved more often than by GRPO',
      argument='small,steps=4,rumours=True',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(
          above('GRPO'), above('GRPO', reading=mean('reward/zero_variance_fraction', lower=True)),
          above('GRPO without a bonus'),
      ),
      baseline=Arm('GRPO', grpo(0.01)),
      beside=(Arm('GRPO without a bonus', grpo(0.0)),),
      seeds=10,
      minutes=30.0,
  )
