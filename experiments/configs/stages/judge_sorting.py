"""A reward model that learns beside the policy, where an answer is easier to check than to find: sorting.

    rlx --config=stages/judge_sorting --workdir=runs/judge
    rlx --config=stages/judge_sorting:judge_learns=False --workdir=runs/judge_fixed

Models, stages and learners are those of `judge_arithmetic`; four digits are to be put in order. The better
answer of a pair is the problem's solution (the paper's is a right answer in other words), so that the judge
has pairs to learn from also where the policy has stopped being right. With `from_rows` it is a right answer
of the policy itself, as there.

Paper: Cooper, https://arxiv.org/abs/2508.05613.

Result: pairs with solutions keep the judge alive, and the policy still ends below its SFT. Held-out accuracy,
median of five seeds (worst, best): after SFT 32.7 % (31.8 %, 39.2 %); after 60 steps 0.9 % (0.0 %, 2.7 %);
after 400 steps 15.9 % (0.2 %, 44.3 %), and rising. The judge tells the better answer in 0.81 to 1.0 of the
pairs all along. With `from_rows`, 120 of the 400 steps: 0.4 % (0.0 %, 1.3 %); from about the sixtieth step no
row was right, so there were no pairs. `judge_learns=False` was not run here.
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
