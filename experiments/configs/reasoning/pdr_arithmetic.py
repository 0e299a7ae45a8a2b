"""PDR on two-digit addition: GRPO on two rounds, of which the second reads the two most frequent drafts.

    rlx --config=reasoning/pdr_arithmetic --workdir=runs/pdr

Paper: https://arxiv.org/abs/2510.01123. What is new is where rows come from, so the algorithm is `grpo`: each
round of a prompt is a group. With `num_rounds = 1` it is training on single passes. `eval/held_out/accuracy`
is of single passes; `eval/rounds/first` and `last` are of the drafts of both rounds.

Result: it does not show. Mean of the last 3 eval/rounds/last after 260 train steps, median of 5 seeds
(worst): 0.07207 (0.002252), 'single passes' 0.01239 (0.004504). Claimed, and got (95 % interval over seeds):
above 'single passes', got 0.04429 (-0.00563 to 0.131), the seeds leave it open; mean of the last 3
eval/rounds/gain: above 0, got -0.1569 (-0.2733 to -0.03791), the run fails it. 218 CPU-s on 1 cores of a CPU;
`rlx reproduce reasoning/pdr_arithmetic`.

Tried: 800 steps, two trial seeds: the second round is right 0.47 of the time, which is still rising, and 0.18
less often than the first.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.envs.arithmetic import ALPHABET
from rlx.envs.text import EOS_ID
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart, 200 steps)."""
  small = parse_arg(arg, smoke=False, small=False).small
  config = arithmetic.get_config(arg)
  config.population.size = 3
  if small:
    config.steps = 200
  config.rollout = {
      'name': 'refine.rounds',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,  # drafts of a prompt in a round
      'num_slots': 0,
      'num_rounds': 2,
      'distil': {
          'name': 'refine.most_frequent',
          'num': 2,
          'eos_id': EOS_ID,
          'separator': ALPHABET.index('=') + 2,  # its token: behind padding and end
      },
  }
  operator = {name: config.rollout[name] for name in ('group_size', 'num_rounds', 'distil')}
  problems = config.evals.held_out.problems // 8  # as many rows in a round
  config.evals.rounds = {**config.evals.held_out, 'name': 'refined', 'problems': problems, **operator}
  return config


def claim() -> Claim:
  """As many rows of single passes, examined with both rounds as well."""
  return Claim(
      paper='S043',
      says='trained on the operator, a second round that reads drafts is right more often than these, and '
      'than the second round of a policy that was trained on single passes',
      argument='small',
      reading=mean('eval/rounds/last', last=3),
      asserts=(above('single passes'), reaches(0.0, reading=mean('eval/rounds/gain', last=3))),
      controls=(Arm('single passes', {'rollout.num_rounds': 1}),),
      minutes=6.0,
  )
