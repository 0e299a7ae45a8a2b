"""TLT on sorting six digits: a draft model of one block guesses for a policy of three, and learns with it.

    rlx --config=systems/tlt_sorting --workdir=runs/tlt

Paper: https://arxiv.org/abs/2511.16665

Result: it shows. Mean of the last 20 speculation/accepted after 240 train steps, median of 5 seeds (worst):
2.125 (2.079), 'drafter that stays' 0.643 (0.5364). Claimed, and got (95 % interval over seeds): above
'drafter that stays' by 0.5, got 1.488 (1.426 to 1.577). 933 CPU-s on 2 cores of a CPU;
`rlx reproduce systems/tlt_sorting`.

A row has six digits and the end token, so two blocks of four at best, in which 2.5 drafts are right. Sampling
took 7 decoding steps at first and 4.55 at the end (mean of the last twenty). With
`--config.algorithm.draft_coef=0` it is the drafter of the start all along: 0.67 drafts right in the first
five steps, 0.54 in the last twenty, always 7 decoding steps (accuracy 98.3 %). Two CPU cores (AMD EPYC), so
busy with other work that the times of the two runs say nothing; see `experiments/benchmarks/speculate.py`
for times.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config(f'smoke={arg.smoke}', steps=200)
  config.task = config.sft.task = ConfigDict({
      'name': 'sorting',
      'length': 6,  # digits
      'held_out_share': 0.1,  # of all strings of digits, never trained on
  })
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 7  # the digits and the end token
  config.models.policy.num_layers = 3
  config.models.drafter = {'name': 'drafter', 'num_layers': 1}  # the policy's first block, at the start

  config.trained = ('policy', 'drafter')
  config.rollout = {
      'name': 'drafted_completions',
      'batch_size': 16 if arg.smoke else 512,
      'group_size': 8,
      'num_slots': 8 if arg.smoke else 512,
      'draft_tokens': 3,  # guesses a step and row
      'max_live': 4 if arg.smoke else 512,  # guess in every step: rows are of one length
  }
  config.algorithm = {
      **config.algorithm,
      'name': 'tlt',
      'draft_coef': 1.0,  # 0: the drafter stays as it began
  }
  return config


def claim() -> Claim:
  """With a drafter that stays as it began: the first block of the policy."""
  return Claim(
      paper='S181',
      says='a drafter that learns from every batch keeps its guesses right while the policy changes',
      reading=mean('speculation/accepted', last=20),
      asserts=(above('drafter that stays', by=0.5),),
      controls=(Arm('drafter that stays', {'algorithm.draft_coef': 0.0}),),
      minutes=40.0,
  )
