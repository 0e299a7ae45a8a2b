"""ScalingInter-RL in small rooms: episodes are short at first, and longer from stage to stage. RL alone.

    rlx --config=agents/rooms_scaling --workdir=runs/rooms_scaling

The world is `envs/worlds/rooms.py` with 2 x 3 rooms, plans without loops and actions of one token; chance
finds the goal now and then, so that no supervision is needed. Two fifths of all problems are held out.

Paper: https://arxiv.org/abs/2509.08755

Tokens are equal, not episodes: of as many tokens, short episodes are more. With equal episodes, half as many
a step, 60 steps and no bonus for entropy, no arm came above 0.2 in the median of five seeds.

With a door more than a tree has, and a tenth of the problems held out, eight seeds left it open: 0.56 beside
0.46 by a long horizon (above by 0.095, -0.013 to 0.16) and 0.525 by a short one (0.065, -0.063 to 0.138). A
short horizon suffices for most of those rooms. So other rooms were tried, on four trial seeds, at 41 to 48
thousand tokens; the mean of the last accuracy:

    rooms                                 stages   long   short
    trees, 0.4 of all problems held out    0.414  0.273   0.331
    32 trees, of which 15 differ           0.445    -     0.447
    2 x 4, two trees, 0.3 held out         0.094    -     0.128

Of the first, stages that end after 24 and 72 of 110 steps came to 0.349, after 60 and 100 of 130 to 0.335: a
long horizon wastes tokens, but 3 turns are no ceiling. Perhaps who has learnt to reach what is near finds
what is far as well, when there are 12 turns for it. In 3 x 3 rooms the stages were at 0.14 after 60 steps.

Sixteen seeds with 120 steps in stages were above a long horizon by 0.08 (0.028 to 0.123), of 1.11 times its
tokens where 1.1 are allowed, and above a short one by 0.036 (-0.009 to 0.08). So there are 108 steps, and
these are the next seeds.

The last stage has little time so. With twice as many steps (216, beside 108 and 372) eight other seeds came
to 0.50, beside 0.47 by a long horizon and 0.395 by a short one: above the short one by 0.10 (0.042 to 0.15),
and above the long one, of whose tokens they had 1.09 times as many, by 0.068 (-0.075 to 0.138): then it is
the long one that is open. Between the two nothing was tried.

Result: it shows in part. Final eval/held_out/accuracy after 41,934 tokens, median of 24 seeds (worst): 0.34
(0.13), 'always long' 0.23 (0.11), 'always short' 0.325 (0.04). Claimed, and got (95 % interval over seeds):
above 'always long', got 0.1058 (0.04833 to 0.1458); above 'always short', got 0.0275 (-0.015 to 0.06917), the
seeds leave it open. 1125 CPU-s on 2 cores of a CPU; `rlx reproduce agents/rooms_scaling`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.agents import rooms_grpo

SHORT, LONG = 3, 12  # turns; evaluations are long
STEPS = 108


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = rooms(arg, steps=STEPS, batch_size=64)
  config.seed = 216  # the first ones had been looked at
  if not parse_arg(arg, smoke=False).smoke:
    config.log.steps_per_dispatch = config.evals.held_out.every = config.checkpoint.every = 12  # 108 are nine
  config.task.update(loops=0, held_out_share=0.4)
  config.rollout.max_turns = {
      'name': 'controllers.schedules.of_stage',
      'values': (SHORT, 2 * SHORT, LONG),
      'boundaries': (STEPS // 3, 2 * STEPS // 3),
  }
  config.algorithm.entropy_coef = 0.01
  return config


def rooms(arg: str, *, steps: int, batch_size: int) -> ConfigDict:
  """The rooms, with a horizon that stays, for the configs that start from here; `arg` as above."""
  parse_arg(arg, smoke=False)
  config = rooms_grpo.get_config(arg, steps=steps)
  config.stages = ('main',)
  del config['sft']
  config.task.update(width=3, height=2, loops=1, num_mazes=8)
  config.models.policy.update(width=32, mlp_size=64, context_length=76)  # 20 thousand parameters
  config.decoding.max_tokens = 64  # said and read, behind the prompt
  config.rollout.turn_tokens = 1
  config.rollout.batch_size = min(config.rollout.batch_size, batch_size)
  config.rollout.max_turns = {'name': 'controllers.schedules.constant', 'value': LONG}
  config.optimizer.learning_rate = 3e-3
  config.optimizer.warmup_steps = 10
  problems = min(config.evals.held_out.problems, 100)
  config.evals.held_out.update(turn_tokens=1, max_turns=LONG, problems=problems)
  return config


def claim() -> Claim:
  """Beside horizons that stay, long or short, for so many steps that they have as many tokens."""

  def fixed(name: str, turns: int, steps: int) -> Arm:
    return Arm(name, {
        'rollout.max_turns': {'name': 'controllers.schedules.constant', 'value': turns},
        'steps': steps, 'optimizer.decay_steps': steps - 20,
    })

  return Claim(
      paper='S088',
      says='a horizon that grows in stages ends above a long one and above a short one, at equal tokens',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('always long'), above('always short')),
      baseline=fixed('always long', LONG, 60),
      beside=(fixed('always short', SHORT, 240),),
      budget='tokens/actions',
      budget_name='tokens',
      seeds=24,
      minutes=20.0,
  )
