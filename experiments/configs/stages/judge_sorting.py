"""A reward model that learns beside the policy, where an answer is easier to check than to find: sorting.

    rlx --config=stages/judge_sorting --workdir=runs/judge
    rlx --config=stages/judge_sorting:judge_learns=False --workdir=runs/judge_fixed

Models, stages and learners are those of `judge_arithmetic`; four digits are to be put in order. The better
answer of a pair is the problem's solution (the paper's is a right answer in other words), so that the judge
has pairs to learn from also where the policy has stopped being right. With `from_rows` it is a right answer
of the policy itself, as there.

Paper: Cooper, https://arxiv.org/abs/2508.05613.

Result: it shows. Final eval/held_out/accuracy after 620 train steps, median of 5 seeds (worst): 0.183 (0),
'frozen judge' 0.003 (0). Claimed, and got (95 % interval over seeds): above 'frozen judge', got 0.1733 (0.002
to 0.4603). 654 CPU-s on 2 cores of a CPU; `rlx reproduce stages/judge_sorting`.

What shows is a return, not a gain: with either judge the policy falls from 32 to 39 % after SFT to 5 % and
less within 60 steps. With the judge that learns two seeds of five end above their SFT (34.5 beside 32.7 %,
52.3 beside 39.2 %), one at 18.3 % and two below 1 %; with the frozen one all end below 1 %. Before, that
judge told the better answer in 0.81 to 1.0 of the pairs all along; with `from_rows` no row was right from
about the sixtieth step on, so there were no pairs (0.4 % after 120 steps).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.stages import judge_arithmetic

LENGTH = 4  # digits


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `judge_learns`; `from_rows`."""
  arg = parse_arg(arg, smoke=False, judge_learns=True, from_rows=False)
  config = judge_arithmetic.get_config(f'smoke={arg.smoke},judge_learns={arg.judge_learns}')
  config.task = {'name': 'sorting', 'length': LENGTH, 'held_out_share': 0.1}
  del config.sft['task']
  for section in (config.decoding, config.sft.decoding, config.label.decoding):
    section.max_tokens = LENGTH + 1
  if arg.judge_learns and not arg.from_rows:
    config.reward.first.name = 'against_solutions'
  return config


def claim() -> Claim:
  """The judge stays as the labelled stage left it."""
  return Claim(
      paper='S006',
      says='a reward model that learns beside the policy ends above one that is frozen',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('frozen judge'),),
      controls=(Arm('frozen judge', config='stages/judge_sorting:judge_learns=False'),),
      minutes=20.0,
  )
