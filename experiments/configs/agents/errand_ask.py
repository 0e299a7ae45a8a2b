"""Ask or act: a tiny decoder fetches things, some of which only the user can tell apart. RL alone.

    rlx --config=agents/errand_ask --workdir=runs/errand_ask

The world is `envs/worlds/errand.py`: one of four things is wanted, by its kind. A question costs 0.2 and says
which one is meant; the first one where that is unclear, in 70 % of problems, is paid 0.4. To act at once is
right in 60 %. There is no supervision. In the paper a language model writes the reward of each step; here the
world pays it.

Paper: https://arxiv.org/abs/2504.00907

Result: it shows in part. Mean of the last 3 eval/held_out/accuracy after 400 train steps, median of 5 seeds
(worst): 1 (1), 'success alone' 0.34 (0.245). Claimed, and got (95 % interval over seeds): above 'success
alone' by 0.1, got 0.6611 (0.2478 to 0.7289); mean of the last 3 eval/held_out/needless: below 0.13, got -0.26
(-0.26 to -0.26), the run fails it. 182 CPU-s on 2 cores of a CPU; `rlx reproduce agents/errand_ask`.

To ask always is what it settles on, and then all rows of a group earn the same: so did three trial seeds each
at costs of 0.3, 0.4 and 0.5 (paid 0.5, 0.6 and 0.6), and at 0.4 with a bonus of 0.03 or 0.1 for entropy,
though to ask where it is needed would then earn 0.1 more. Behind 20 steps of imitation of an expert who asks
where it is needed, three trial seeds asked in 0.88 of the episodes, needlessly in 0.16; after 20 steps of
GRPO in all of them, at a cost of 0.4, paid 0.5 or nothing. Behind 100 steps of imitation, at a cost of 0.6,
paid 0.7, four trial seeds asked needlessly in 0.2 after 80 steps, and in none after 200 at a sixth of the
rate. At a third of it, and a cost of 0.9, paid 1, ten seeds came to 0.995 after 500 steps, and asked
needlessly in 0.009 (to 0.06). But paid for success alone, from the same start, ten ask no more often where
nobody has to, and still succeed in 0.85: 0.128 less (0.060 to 0.205).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.quickstart import arithmetic

TURNS = {'turn_tokens': 1, 'max_turns': 3}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
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
      minutes=3.0,
  )
