"""Answers to word problems with a calculator, and without one: SFT on marked solutions, then GRPO.

    rlx --config=tools/word_problems_calculator --workdir=runs/answers

As `tools/gsm8k_calculator` on problems made by rule, with a decoder that is large enough (300 thousand
parameters) to find the numbers of a problem: what is compared is its answers. With `:tool=False` the policy
is trained on the results too, and writes them itself.
Paper: https://arxiv.org/abs/2110.14168, whose data have the marks, and whose sampling has the calculator.

Result: it shows. Final eval/held_out/accuracy after 170 train steps, median of 5 seeds (worst): 0.9844
(0.9688), 'without the calculator' 0.125 (0.07812). Claimed, and got (95 % interval over seeds): above
'without the calculator' by 0.2, got 0.8542 (0.8333 to 0.901); the median above 0.5, got 0.9844 (0.9688 to 1).
906 CPU-s on 1 cores of a CPU; `rlx reproduce tools/word_problems_calculator`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.sft.gsm8k import SMALL_DECODER
from rlx.experiments.configs.tools import gsm8k_calculator

NUM_PROBLEMS = 4000


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `tool` (True or False), `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, tool=True, smoke=False)
  config = gsm8k_calculator.get_config(f'tool={arg.tool},smoke={arg.smoke}')
  config.log.headline = 'eval/held_out/accuracy'
  if arg.smoke:
    return config
  config.models.policy = {**SMALL_DECODER}
  config.task.rows.num = NUM_PROBLEMS
  config.sft.task = config.task
  config.sft.steps = 160
  config.sft.optimizer.update(learning_rate=3e-3, decay_steps=160)
  config.evals.held_out.every = 80
  return config


def claim() -> Claim:
  """One seed was looked at before, with 300 steps of SFT and the tool."""
  return Claim(
      paper='',
      says='with a calculator that goes on behind `=`, more problems are solved than where the policy learns '
      'and writes the results itself, at equal train steps',
      reading=final('eval/held_out/accuracy'),
      controls=(Arm('without the calculator', config='tools/word_problems_calculator:tool=False'),),
      asserts=(above('without the calculator', by=0.2), reaches(0.5, of='median')),
      seeds=5,
      minutes=15.0,
  )
