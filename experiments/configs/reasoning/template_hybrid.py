"""GRPO with or without a thinking template: every row begins with the mark that asks for steps, or with none.

    rlx --config=reasoning/template_hybrid --workdir=runs/template_think
    rlx --config=reasoning/template_hybrid:think=0 --workdir=runs/template_direct

Paper: RLVER, https://arxiv.org/abs/2507.03112, which trains either way and compares; its simulated users are
not part of it here. Problems are chains of one to four skills (`envs.hybrid.composed`): each value is had
from the one before, and with the template they are written down. `eval/template/accuracy` is that of the
template on held-out problems; in `eval/held_out` the policy chooses its first token itself. `reward/mean` is
the share of training problems that are solved.

A held-out problem has a first digit that this chain never had. Thinking takes it in steps that other chains
have shown; an answer at once can learn the training problems by heart, and does so only. SFT shows both
modes, and ends early: three trial seeds then solve 0.32 to 0.65 of the training problems by thinking, which
RL lifts to 0.62 to 0.85. After SFT until 30 % two of them solved more than 0.9 before RL began; there the
rate was tuned, for each arm on three trial seeds: of 5e-4 and 1.5e-3 the first is better for both (without
thinking 0.46 beside 0.35 of the training problems, and 0.11 beside 0.06 of the others).

On sums of one to four digits (`hgpo_hybrid.py`) it was not so: 0.37 with thinking and 0.53 without, medians
of five seeds; on three trial seeds each also with more SFT, longer training or longer sums. Perhaps attention
adds all digits up in one look.

Result: it shows. Mean of the last 3 eval/template/accuracy after 220 train steps, median of 10 seeds (worst):
0.8111 (0.09889), 'without thinking' 0.1139 (0.05556). Claimed, and got (95 % interval over seeds): above
'without thinking' by 0.1, got 0.6878 (0.3922 to 0.7976); mean of the last 20 reward/mean: above 'without
thinking' by 0.1, got 0.3961 (0.2346 to 0.4664). 322 CPU-s on 1 cores of a CPU;
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
  config.task = {
      'name': 'hybrid.composed', 'modulus': 7, 'num_skills': 4, 'used': (0, 1, 2, 3), 'min_steps': 1,
      'max_steps': 4, 'held_out_share': 0.3,
  }
  config.sft.task = config.task
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 8  # mode, four values, the mark, answer, end
  config.sft.stop.at_least = 0.15  # most of it is left to RL
  config.optimizer.learning_rate = 5e-4
  if arg.small:
    config.steps, config.rollout.batch_size, config.updates.microbatches = 200, 128, 1
  config.slow = ConfigDict()
  config.rollout.modes = ('?',) if arg.think else ('!',)
  config.algorithm = {**arithmetic.GRPO}
  config.evals.template = {**config.evals.held_out, 'name': 'in_mode', 'modes': config.rollout.modes}
  return config


def claim() -> Claim:
  """The same SFT, and as many rows of the same problems with the other template."""
  return Claim(
      paper='S023',
      says='trained with a thinking template a policy ends above the same training without one',
      argument='small',
      reading=mean('eval/template/accuracy', last=3),
      asserts=(
          above('without thinking', by=0.1),
          above('without thinking', by=0.1, reading=mean('reward/mean', last=20)),
      ),
      controls=(Arm('without thinking', config='reasoning/template_hybrid:small,think=0'),),
      seeds=10,
      minutes=6.0,
  )
