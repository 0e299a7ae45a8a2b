"""SCALER on chains of skills: six families, four at a time, each as long as is solved half of the time.

    rlx --config=curriculum/scaler_skills --workdir=runs/scaler

Paper: https://arxiv.org/abs/2601.04809. There, thousands of environments are made from programming problems.

Tried: up to seven steps, behind 40 steps of SFT: on two trial seeds 0.19 of the held-out problems were solved
before, and 0.17 after 140 steps, in which the families came to 2.9 operations and the entropy fell from 1.2
to 0.2 nats. With a bonus of 0.01 for entropy, and up to five as in the claim, three others came to 0.46, 0.37
and 0.89, the last of which knew half before.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 340 train steps, median of 5 seeds
(worst): 0.505 (0.2797), 'GRPO' 0.6903 (0.4083). Claimed, and got (95 % interval over seeds): above 'GRPO',
got -0.1443 (-0.1978 to -0.1073), the reverse holds. 292 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/scaler_skills`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import nurl_skills


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `steps`, here of the longest problems)."""
  config = nurl_skills.get_config(arg)
  config.task.min_steps = 1
  config.rollout = {
      'name': 'generators.adaptive',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
      'num_slots': 0,
      'families': ('ab', 'bc', 'cd', 'de', 'ef', 'fa'),  # letters of skills
      'num_active': 4,  # families at a time
      'first_level': 1.0,  # operations
      'target': 0.5,  # success rate
      'rate': 0.2,  # operations by which certain success is above the target, over 1 - target
      'min_rise': 0.1,  # operations
      'patience': 60,  # steps
  }
  config.sft.task = config.task
  config.sft.rollout.forms = ('',)
  config.sft.stop.at_least = 0.1
  return config


def claim() -> Claim:
  """Problems of any length, as many rows."""
  return Claim(
      paper='S105',
      says='families as long as are solved half of the time teach more than problems of any length',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'rollout': nurl_skills.COMPLETIONS}),
      minutes=12.0,
  )
