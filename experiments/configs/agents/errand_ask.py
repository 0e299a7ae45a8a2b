"""Ask or act: a tiny decoder fetches things, some of which only the user can tell apart.

    rlx --config=agents/errand_ask --workdir=runs/errand_ask

The world is `envs/worlds/errand.py`: one of four things is wanted, by its kind. A question costs 0.9 and says
which one is meant; the first one where that is unclear, in 74 % of what is examined, is paid 1. First the
policy is shown an expert who asks where it is needed. In the paper a language model writes the reward of each
step; here the world pays it.

Paper: https://arxiv.org/abs/2504.00907

Result: not run yet.

From nothing, without what is shown, at a cost of 0.2, paid 0.4, and three times the rate, five seeds came to
succeed always, and paid for success alone in 0.34 of the problems, but all of them asked always: then all
rows of a group earn the same. So did three trial seeds each at costs of 0.3, 0.4 and 0.5 (paid 0.5, 0.6 and
0.6), and at 0.4 with a bonus of 0.03 or 0.1 for entropy, though to ask where it is needed would then earn 0.1
more. Behind 20 steps of what is shown, and at that rate, three trial seeds asked in 0.88 of the episodes,
needlessly in 0.16, and after 20 steps of GRPO in all of them, at a cost of 0.4, paid 0.5 or nothing; behind
100, at a cost of 0.6, four asked needlessly in 0 at first and in 0.2 after 80 steps. It is the rate that
tells: at a sixth of it four trial seeds asked where it was needed, and nowhere else, after 200 steps. Paid
for success alone, at a cost of 0.6, they did so, too, since a guess among three is worth less than that.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.quickstart import arithmetic

TURNS = {'turn_tokens': 1, 'max_turns': 3}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = from_nothing(arg)
  arg = parse_arg(arg, smoke=False)
  config.stages = ('sft', 'main')
  config.task.update(cost=0.9, useful=1.0)
  config.sft = arithmetic.get_config('').sft
  config.sft.task = config.task  # the same object: an override reaches both stages
  config.sft.decoding = config.decoding
  config.sft.rollout = {'name': 'turns.expert_turns', 'batch_size': 64, **TURNS}
  config.sft.steps, config.sft.stop = 100, ConfigDict()
  config.steps, config.seed = 500, 40  # the first ones had been looked at
  config.optimizer.update(learning_rate=1e-3, decay_steps=480)
  if arg.smoke:
    config.steps = config.sft.steps = 4
    config.sft.rollout.batch_size = 16
  return config


def from_nothing(arg: str) -> ConfigDict:
  """GRPO alone, with cheaper questions: what configs of other papers start from.

  Args:
    arg: as of `get_config`.
  """
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=400)
  config.stages = ('main',)
  del config['sft']
  config.task = {
      'name': 'errand',
      'num_things': 4,
      'num_kinds': 3,
      'cost': 0.2,
      'useful': 0.4,
      'held_out_share': 0.2,
  }
  config.models.policy.update(width=32, mlp_size=64, context_length=20)  # 20 thousand parameters
  config.decoding.max_tokens = 9  # said and read, behind the prompt
  config.rollout = {
      'name': 'turns.episodes',
      'batch_size': 64,
      'group_size': 8,
      'num_slots': 0,
      'turn_tokens': TURNS['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
  }
  config.reward = {'name': 'of_world'}
  config.updates.microbatches = 1
  config.optimizer.learning_rate = 3e-3
  config.evals = {
      'held_out': {'name': 'turns.episodes', 'every': 20, 'problems': 200, 'num_slots': 0, **TURNS}
  }
  if arg.smoke:
    config.steps, config.rollout.batch_size = 4, 16
    config.evals.held_out.update(every=2, problems=16)
    config.checkpoint = {'every': 2, 'keep': 2}
    config.log.update(steps_per_dispatch=2, samples=2)
  return config


def claim() -> Claim:
  """Beside success alone, at the same cost of a question; to ask always is to ask 26 % needless questions."""
  needless = mean('eval/held_out/needless', last=3, lower=True)
  return Claim(
      paper='S210',
      says='paid for needed questions, a policy asks those, and succeeds more often than paid for '
      'success alone',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('success alone', by=0.1), reaches(-0.13, reading=needless)),
      controls=(Arm('success alone', {'task.useful': 0.0}),),
      seeds=10,
      minutes=6.0,
  )
