"""GRPO with or without a thinking template: every row begins with the mark that asks for steps, or with none.

    rlx --config=reasoning/template_hybrid --workdir=runs/template_think
    rlx --config=reasoning/template_hybrid:think=0 --workdir=runs/template_direct

Paper: RLVER, https://arxiv.org/abs/2507.03112, which trains either way and compares; its simulated users are
not part of it here. The task is that of `hgpo_hybrid.py`. `eval/template/accuracy` is that of the template;
in `eval/held_out` the policy chooses its first token itself.

Longer training and longer sums were tried on three trial seeds each. SFT until 70 %, then 400 steps of RL:
0.60 with thinking and 0.80 without. Sums of up to six digits, half of the learning rate, SFT until 40 %: 0.38
with thinking, where SFT had left it, after 300 steps of RL; until 60 %: 0.66 and 0.82 after 160. Here an
answer at once is the easier one to learn. Why was not tested; perhaps attention adds all digits up in one
look, and behind `?` a running sum that is wrong is carried on.

Result: it does not show. Mean of the last 3 eval/template/accuracy after 280 train steps, median of 5 seeds
(worst): 0.3711 (0.08111), 'without thinking' 0.5344 (0.1889). Claimed, and got (95 % interval over seeds):
above 'without thinking', got -0.2222 (-0.5089 to 0.1893), the run fails it. 208 CPU-s on 1 cores of a CPU;
`rlx reproduce reasoning/template_hybrid`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.reasoning import hgpo_hybrid


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (128 rows, 200 steps); `think` (steps before the
  answer, or the answer alone)."""
  arg = parse_arg(arg, smoke=False, small=False, think=True)
  sizes = f'smoke={arg.smoke},small={arg.small}'
  config = hgpo_hybrid.get_config(sizes)
  if arg.small:
    config.steps, config.rollout.batch_size, config.updates.microbatches = 200, 128, 1
  config.slow = ConfigDict()
  config.rollout.modes = ('?',) if arg.think else ('!',)
  config.algorithm = {**arithmetic.GRPO}
  config.evals.template = {**config.evals.held_out, 'name': 'in_mode', 'modes': config.rollout.modes}
  return config


def claim() -> Claim:
  """The same problems and as many rows with the other template, and the first one on the policy of SFT."""
  return Claim(
      paper='S023',
      says='trained with a thinking template a policy ends above the same training without one',
      argument='small',
      reading=mean('eval/template/accuracy', last=3),
      asserts=(above('without thinking'),),
      controls=(Arm('without thinking', config='reasoning/template_hybrid:small,think=0'),),
      minutes=6.0,
  )
