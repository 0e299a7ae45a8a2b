"""SwS on chains of skills: half of each batch is made of the skills of problems that keep failing.

    rlx --config=curriculum/sws_skills --workdir=runs/sws

Paper: https://arxiv.org/abs/2506.08989. There, failures are found in a run of their own, and problems made of
them for the next.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 700 train steps, median of 5 seeds
(worst): 0.02733 (0.0006667), 'GRPO' 0.011 (0). Claimed, and got (95 % interval over seeds): above 'GRPO', got
0.006889 (-0.02567 to 0.02722), the seeds leave it open. 446 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/sws_skills`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import nurl_skills


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `steps`)."""
  config = nurl_skills.get_config(arg)
  groups = config.rollout.batch_size // 8
  config.rollout = {
      'name': 'synthesised',
      'num_problems': 512,  # seeds
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
      'num_slots': 0,
      'num_synthetic': groups // 2,  # problems of a batch
      'min_steps': config.task.min_steps,
      'max_steps': config.task.max_steps,
      'failures': {
          'name': 'controllers.prompts.persistent_failures',
          'best_below': 0.5,  # the paper's
          'min_tries': 16,  # samples of a seed
      },
      'keep': 0.5,  # of recent counts, each time a seed is seen
  }
  config.sft.rollout.forms = ('',)
  config.sft.stop.at_least = 0.1
  return config


def claim() -> Claim:
  """Problems at random, as many rows."""
  return Claim(
      paper='S113',
      says='problems made of the skills that keep failing teach more than problems at random',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'rollout': nurl_skills.COMPLETIONS}),
      minutes=12.0,
  )
