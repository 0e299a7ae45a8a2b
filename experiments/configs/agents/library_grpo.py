"""A tiny decoder looks up documents that point to each other: a little imitation, then GRPO.

    rlx --config=agents/library_grpo --workdir=runs/library

The world is `envs/worlds/library.py`. A call that is none is answered by `!`, and costs a turn and nothing
else.

Imitation ends after 20 steps: they come to 18.8 % (median of three seeds), 40 steps to 100 %, so that nothing
is left to be learnt.

Result: it shows. Final eval/held_out/accuracy after 260 train steps, median of 5 seeds (worst): 0.9883
(0.8438), 'imitation alone' 0.2188 (0.09375). Claimed, and got (95 % interval over seeds): above 'imitation
alone' by 0.2, got 0.7448 (0.5599 to 0.7878); above 0.6, got 0.9766 (0.8763 to 1). 470 CPU-s on 1 cores of a
CPU; `rlx reproduce agents/library_grpo`.

With `small`, five times the rate and half of the episodes, GRPO falls below imitation: 0.098 (0.059) beside
0.219 (0.094), median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.agents import rooms_grpo

TURNS = {'turn_tokens': 3, 'max_turns': 6}  # a call of two characters and the end token


def get_config(arg: str = '', *, steps: int = 240) -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (half of the episodes, 80 steps at five times the
  rate: a minute or two); `steps` are those of the last stage."""
  arg = parse_arg(arg, smoke=False, small=False)
  config = rooms_grpo.get_config(f'smoke={arg.smoke}', steps=steps)
  config.task = config.sft.task = {
      'name': 'library',
      'documents': 5,
      'max_links': 2,
      'libraries': 100,  # so many that they have to be read
      'held_out_share': 0.1,
  }
  config.models.policy.context_length = 48  # tokens
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 40  # said and read, behind the prompt
  config.rollout.turn_tokens = TURNS['turn_tokens']
  config.rollout.max_turns.value = TURNS['max_turns']
  config.sft.rollout.update(TURNS)
  config.evals.held_out.update(TURNS)
  config.sft.steps = 4 if arg.smoke else 20  # half as many more, and nothing is left to be learnt
  config.evals.sampled = {**config.evals.held_out, 'name': 'sampled_turns'}
  if arg.small:
    config.steps, config.rollout.batch_size, config.rollout.num_slots = 80, 64, 32
    config.optimizer.decay_steps = 180  # updates
  else:
    config.optimizer.update(learning_rate=3e-4, decay_steps=0)
  return config


def claim() -> Claim:
  """The control samples as many episodes and learns nothing from them."""
  return Claim(
      paper='',
      says='GRPO in a world of several turns lifts what a little imitation leaves',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('imitation alone', by=0.2), reaches(0.6)),
      controls=(Arm('imitation alone', {'optimizer.learning_rate': 0.0}),),
      minutes=10.0,
  )
