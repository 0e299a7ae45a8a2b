"""SIRI on a verbose solver: a length limit that swings between 12 and 4 tokens, three cycles.

    rlx --config=reasoning/siri_fork --workdir=runs/siri

Paper: https://arxiv.org/abs/2509.25176. GRPO with DAPO's wide upper clip and no KL, as there; only the limit
is new. In the fork task one digit is asked for, and SFT teaches to say up to ten letters behind it. With
either limit answers have 2 tokens (3 in one seed of five) at the 90th step and in the end: GRPO alone leaves
the limit nothing to shorten here. Where each token weighs the same
(`reductions.token_mean`) three trial seeds under the limit that swings ended at 2 tokens as well.

Result: it shows in part. Mean of the last 10 eval/held_out/accuracy after 320 train steps, median of 5 seeds
(worst): 1 (1), 'constant limit' 1 (1). Claimed, and got (95 % interval over seeds): above 'constant limit' by
-0.02, got 0 (0 to 0); mean of the last 10 eval/held_out/response_tokens: below 'constant limit' by 1, got 0
(0 to 0), the run fails it. 164 CPU-s on 2 cores of a CPU; `rlx reproduce reasoning/siri_fork`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.credit import tempo_fork

CONSTANT = {'name': 'controllers.schedules.constant', 'value': 12}
SHORTER = mean('eval/held_out/response_tokens', last=10, lower=True)


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart)."""
  smoke = parse_arg(arg, smoke=False, small=False).smoke
  config = tempo_fork.get_config(arg, before=0, after=10)
  config.sft.task.right_share, config.sft.stop.at_least = 0.5, 0.5  # a solver, with something left to learn
  rows = config.rollout.batch_size
  config.rollout = {
      'name': 'curriculum',
      'num_problems': 4096,  # made once
      'batch_size': rows,
      'num_prompts': rows // 8,
      'num_slots': 0,
      'scores': {'name': 'controllers.prompts.everywhere'},
      'draw': {'name': 'controllers.prompts.without_replacement'},
      'allocate': {'name': 'controllers.allocation.uniform'},
      'length': {
          'name': 'controllers.schedules.oscillating',
          'low': 4,  # tokens
          'high': config.decoding.max_tokens,
          'period': 2 if smoke else 200,  # steps of a cycle
      },
      'keep': 1.0,
      'prior_rate': 0.5,
      'prior_strength': 1.0,
  }
  config.algorithm = {
      'name': 'grpo', 'clip_low': 0.2, 'clip_high': 0.28, 'kl': {'name': 'no_kl'}, 'entropy_coef': 0.0,
  }
  return config


def claim() -> Claim:
  """With the largest limit all the time."""
  return Claim(
      paper='S127',
      says='a limit that swings makes answers shorter and no worse',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('constant limit', by=-0.02), above('constant limit', by=1.0, reading=SHORTER)),
      baseline=Arm('constant limit', {'rollout.length': CONSTANT}),
      minutes=12.0,
  )
