"""A workshop with a calculator: look two letters up, join their values by a rule, and answer.

    rlx --config=tools/workshop_grpo --workdir=runs/workshop

The world is `envs/worlds/workshop.py`, on the device: values are digits, other ones in each problem, and the
rule is their sum or their difference, modulo 10. An expert is imitated for some steps, then GRPO is paid for
right answers.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo

TURNS = {'turn_tokens': 4, 'max_turns': 4}  # two look-ups, a calculation and the answer


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = rooms_grpo.get_config(f'smoke={arg.smoke},small=True', steps=40)
  config.task = config.sft.task = {
      'name': 'workshop', 'num_letters': 4, 'modulus': 10, 'num_rules': 2, 'calculator': True,
      'held_out_share': 0.1,
  }
  config.models.policy.context_length = 40  # tokens
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 32  # said and read, behind the prompt
  config.rollout.turn_tokens = TURNS['turn_tokens']
  config.rollout.max_turns.value = TURNS['max_turns']
  config.sft.rollout.update(TURNS)
  config.evals.held_out.update(TURNS)
  config.sft.stop = ConfigDict()  # none: arms are imitated for as long
  config.sft.steps = 4 if arg.smoke else 40
  return config


def claim() -> Claim:
  """The same steps where there is no calculator, so that the policy has to know the sums."""
  return Claim(
      paper='',
      says='with a calculator more answers are right than without it, at equal episodes',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('no calculator', by=0.2),),
      baseline=Arm('no calculator', {'task.calculator': False}),
      minutes=4.0,
  )
