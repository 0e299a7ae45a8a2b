"""A tiny decoder finds its way through rooms that it sees one at a time: a little imitation, then GRPO.

    rlx --config=agents/rooms_grpo --workdir=runs/rooms

The world is `envs/worlds/rooms.py`: 3 x 3 rooms, of whose doors nothing is told. The expert, who knows them,
is imitated until 30 % of held-out episodes end at the goal, for random tokens never do; then episodes are
sampled.

Result: five seeds side by side (`--config.population.size=5`), which leave SFT together, after 40 steps, when
the last of them has come to 30 %: held-out accuracy 70.7 % then (median; worst 69.9, best 82.8), 94.5 % after
400 steps of GRPO (worst 91.8, best 95.3); 71 minutes on two cores that other work shared. Seed 0 alone left
SFT after 20 steps, at 36.3 %, and came to 92.6 %.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic

TURNS = {'turn_tokens': 2, 'max_turns': 12}  # a letter and the end token


def get_config(arg: str = '', *, steps: int = 400) -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (a quarter of the parameters, half of the episodes,
  100 steps: a minute or two); `steps` are those of the last stage."""
  arg = parse_arg(arg, smoke=False, small=False)
  config = arithmetic.get_config('', steps=steps)
  config.task = {
      'name': 'rooms',
      'height': 3,
      'width': 3,
      'num_mazes': 16,  # plans of doors
      'loops': 2,  # doors more than a tree
      'num_keys': 0,
      'held_out_share': 0.1,
  }
  config.models.policy.context_length = 104  # tokens
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 92  # said and read, behind the prompt
  config.rollout = {
      'name': 'turns.episodes',
      'batch_size': 128,
      'group_size': 8,
      'num_slots': 64,
      'turn_tokens': TURNS['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
  }
  config.reward = {'name': 'of_world'}
  config.updates.microbatches = 1
  config.sft.task = config.task
  config.sft.rollout = {'name': 'turns.expert_turns', 'batch_size': 64, **TURNS}
  config.sft.stop.at_least = 0.3
  config.evals = {
      'held_out': {'name': 'turns.episodes', 'every': 20, 'problems': 256, 'num_slots': 64, **TURNS}
  }
  if arg.small:
    config.steps, config.rollout.batch_size, config.rollout.num_slots = min(steps, 100), 64, 32
    config.models.policy.update(width=32, mlp_size=64)
    config.optimizer.update(learning_rate=2e-3, decay_steps=config.steps - 20)
    config.evals.held_out.problems = 128
  if arg.smoke:
    _shrink(config)
  return config


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.rollout.batch_size, config.rollout.num_slots = 16, 8
  config.sft.rollout.batch_size = 16
  config.evals.held_out.update(every=2, problems=16, num_slots=8)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.update(steps_per_dispatch=2, samples=2)
