"""GSM8K's calculations with a calculator, and without one: SFT on marked solutions, then GRPO.

    rlx --config=tools/gsm8k_calculator:model=DIR,train=F,held_out=F --workdir=runs/calculator

Solutions have marks, `<<48/2=24>>`. With the calculator the policy is trained on all of them but the results,
and in SFT and GRPO alike a turn ends behind the `=` of a mark, where the calculator goes on; with
`:tool=False` the policy is trained on the results too, and writes them itself. `train` and `held_out` are
GSM8K's own files; without them problems in its form are made by rule. `rlx init-model` makes a `model`.
Paper: https://arxiv.org/abs/2110.14168, whose data have the marks, and whose sampling has the calculator.

Result: it shows. Final eval/held_out/right_marks after 210 train steps, median of 5 seeds (worst): 1 (1),
'without the calculator' 0.06316 (0.01087). Claimed, and got (95 % interval over seeds): above 'without the
calculator' by 0.2, got 0.947 (0.8546 to 0.9857); the median above 0.9, got 1 (1 to 1). 396 CPU-s on 1 cores
of a CPU; `rlx reproduce tools/gsm8k_calculator`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.sft import gsm8k
from rlx.experiments.configs.tools import word_problems_grpo

NUM_PROBLEMS = 2000  # made by rule
TOKENS = 112  # of a solution that was made so: three quarters of it are taken


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `tool` (True or False) and those of `sft/gsm8k.py`; no `train`: problems are made."""
  arg = parse_arg(arg, tool=True, **{**gsm8k.DEFAULTS, 'train': '', 'held_out': ''})
  is_made = not arg.train
  given = {} if is_made else {'train': arg.train, 'held_out': arg.held_out}
  config = word_problems_grpo.get_config('', model=arg.model, smoke=arg.smoke, **given)
  if is_made:
    gsm8k.make_rows(config, num=64 if arg.smoke else NUM_PROBLEMS)
    if not arg.smoke:
      config.decoding.max_tokens = config.sft.decoding.max_tokens = TOKENS
  if not arg.tool:
    without_the_tool(config)
  config.evals.held_out.update(name='host_turns.marked_episodes', problems=8 if arg.smoke else 64)
  config.log.headline = 'eval/held_out/right_marks'
  if not arg.smoke:
    config.sft.steps, config.steps = 200, 10
    config.sft.optimizer.update(learning_rate=5e-3, decay_steps=180)  # of 40,000 parameters; updates
    config.rollout.update(batch_size=32, num_slots=32)
    config.evals.held_out.update(every=100, num_slots=32)  # and at the end
    config.checkpoint.every = 100
  return config


def without_the_tool(config: ConfigDict) -> None:
  """The policy learns and writes the results itself, in turns that are whole answers."""
  del config.sft['toolbox']
  config.sft.rollout = {'name': 'solutions', 'batch_size': config.sft.rollout.batch_size}
  config.toolbox.calls = {'name': 'calls.tags', 'tools': ('calculator',)}  # as no solution has them
  config.decoding.stop = ()
  for turns in (config.rollout, config.evals.held_out):
    turns.turn_tokens = config.decoding.max_tokens


def claim() -> Claim:
  """A small model learns where a calculation belongs long before it learns to calculate."""
  return Claim(
      paper='',
      says='with a calculator that goes on behind `=`, more marked results are right than where the policy '
      'learns and writes them itself, at equal train steps',
      reading=final('eval/held_out/right_marks'),
      controls=(Arm('without the calculator', config='tools/gsm8k_calculator:tool=False'),),
      asserts=(above('without the calculator', by=0.2), reaches(0.9, of='median')),
      seeds=5,
      minutes=10.0,
  )
