"""NuRL on chains of skills: groups without a success are sampled again with the first values told.

    rlx --config=curriculum/nurl_skills --workdir=runs/nurl

Paper: https://arxiv.org/abs/2509.25666. There, hints are written by the policy before training, and begin
after GRPO has converged; `nurl_self_skills.py` has the policy write them. What shows is small: hardly a
held-out problem is right, with hints or without.

Tried: problems of seven steps, two trial seeds each. Where SFT goes on until half of the skills are known,
hardly a hinted row of a failed group succeeds (1.6 % of all rows at most): who can solve the problems of its
lessons does not read hints. It was the same behind 40 steps of SFT of all skills, after which 0.5 % are
solved, and where lessons of which only the told values counted stood before or behind SFT.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 138,240 rollouts, median of 5 seeds
(worst): 0.005667 (0.004), 'GRPO' 0.003333 (0.003). Claimed, and got (95 % interval over seeds): above 'GRPO',
got 0.003444 (-0.005556 to 0.01622), the seeds leave it open. 428 CPU-s on 1 cores of a CPU;
`rlx reproduce curriculum/nurl_skills`.

Beside GRPO with two thirds of the rollouts, as many rows as there are in a batch, it was above: 0.0083 beside
0.0023, medians of the same five seeds.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

# Rows of the small setting, each sampled once.
COMPLETIONS = {'name': 'prompts.completions', 'batch_size': 256, 'group_size': 8, 'num_slots': 0}
AGAIN = 128  # rows that are sampled again in a second attempt, of half of the groups


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
  """Groups are sampled once, and as many rows as with the second attempts."""
  rows = COMPLETIONS['batch_size'] + AGAIN
  return Claim(
      paper='S217',
      says='hints where a group has no success lift what GRPO cannot learn',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      cost=rows,
      budget_name='rollouts',
      baseline=Arm('GRPO', {'rollout': {**COMPLETIONS, 'batch_size': rows}}, cost=rows),
      minutes=12.0,
  )
