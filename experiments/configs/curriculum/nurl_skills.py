"""NuRL on chains of skills: groups without a success are sampled again with the first values told.

    rlx --config=curriculum/nurl_skills --workdir=runs/nurl

Paper: https://arxiv.org/abs/2509.25666. There, hints are written by the policy before training, and begin
after GRPO has converged; `nurl_self_skills.py` has the policy write them. What shows is small: hardly a
held-out problem is right, with hints or without.

Result: it shows. Mean of the last 10 eval/held_out/accuracy after 360 train steps, median of 5 seeds (worst):
0.008333 (0.002333), 'GRPO' 0.002333 (0.001). Claimed, and got (95 % interval over seeds): above 'GRPO', got
0.007445 (0.0005555 to 0.01922). 380 CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/nurl_skills`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

# Rows of the small setting, each sampled once.
COMPLETIONS = {'name': 'prompts.completions', 'batch_size': 256, 'group_size': 8, 'num_slots': 0}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (as in the quickstart); `steps` (operations of a
  problem, the difficulty)."""
  arg = parse_arg(arg, smoke=False, small=False, steps=5)
  config = arithmetic.get_config(f'smoke={arg.smoke},small={arg.small}', steps=600)
  config.population.size = 3
  config.task = {
      'name': 'skills',
      'modulus': 10,
      'num_skills': 6,
      'used': (0, 1, 2, 3, 4, 5),
      'min_steps': arg.steps,
      'max_steps': arg.steps,
      'held_out_share': 0.2,  # of the first digits, others for each chain of operations
  }
  config.decoding.max_tokens = config.sft.decoding.max_tokens = arg.steps + 1
  config.rollout = {
      'name': 'inject.hinted',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
      'num_slots': 0,
      'form': 'hinted',
      'num_retried': config.rollout.batch_size // 16,  # half of the groups
      'kept_rows': 1,  # one row of a group is without the hint, as in the paper
  }
  # Policies that know how to use a hint, and hardly anything else.
  config.sft.task = {**config.task, 'used': (0, 1, 2)}
  config.sft.stop.at_least = 0.02
  config.sft.rollout = {
      'name': 'inject.lessons',
      'batch_size': config.sft.rollout.batch_size,
      'forms': ('', 'hinted', 'asking'),
  }
  return config


def claim() -> Claim:
  """Groups are sampled once, as many rows of a batch; the second attempts come on top."""
  return Claim(
      paper='S217',
      says='hints where a group has no success lift what GRPO cannot learn',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'rollout': COMPLETIONS}),
      minutes=12.0,
  )
