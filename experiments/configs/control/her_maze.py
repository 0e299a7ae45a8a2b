"""HER: DDPG comes to goals in a room with walls that pays on arrival alone.

Paper: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495

    rlx --config=control/her_maze --workdir=runs/her_maze

A room of 13 by 13 cells with a piece of wall in each corner. Episodes begin in the middle, goals are anywhere
else, and what is examined is success over all of them. Random actions hardly ever meet a goal; so without
goals in hindsight there is little to learn from, as in the tasks of the paper.

Result: it shows. Mean of the last 3 eval/episodes/success after 4000 train steps, median of 10 seeds (worst):
0.5885 (0.2838), 'no goals in hindsight' 0.1107 (0.02865). Claimed, and got (95 % interval over seeds): above
'no goals in hindsight' by 0.15, got 0.4392 (0.2916 to 0.5239). 232 CPU-s on 2 cores of a CPU;
`rlx reproduce control/her_maze`.

Before, the maze was like a U and the way to its far end was examined, a mark that was a goal in hindsight
alone: after 16,000 steps 0.1068 beside 0 in the median of twenty seeds (interquartile means 0.06 apart, -0.21
to 0.32). What decides there is whether a seed ever comes to the far end: more noise did not help (a uniform
action in one step of five in addition, as the authors have it, or SAC in the place of DDPG, ten trial seeds),
nor did one critic, as DDPG has it, in the place of the lower of two (0.58 to 0.75 in one trial seed of two,
0.91 to 1 of three). Goals anywhere in that maze did not show it, five seeds: 0.83 (worst 0.55) beside 0.79
(0.23), claimed by 0.15.

Tried on trial seeds, success over all goals: at the two far marks of the U alone both arms had 0.38; of a
straight corridor both have 0.98 and more in the median; of `stitch` 0.97 (0.26) beside 0.67 (0.40); of four
rooms of 5 by 5 cells from the corner of one, 0.28 beside 0.24 after 6,000 steps (six seeds). In a room of 11
by 11 cells without walls it is 0.996 beside 0.43 in the median of six seeds after 3,000 steps, and all goals
in both arms after 6,000. Of the room as it is now five seeds have 0.63 (0.19) beside 0.13 (0.03) after 4,000
steps, the last three evaluations.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.control import ddpg_pendulum as parent

MAX_STEPS = 50
ROOM = """
###############
#.............#
#.............#
#..##.....##..#
#..#.......#..#
#.............#
#.............#
#......S......#
#.............#
#.............#
#..#.......#..#
#..##.....##..#
#.............#
#.............#
###############"""


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of ddpg_pendulum."""
  config = parent.get_config(arg)
  config.seed = 40  # the first ones had been looked at
  config.env = {'name': 'maze', 'layout': ROOM, 'starts': 'S', 'goals': '.', 'max_steps': MAX_STEPS}
  config.rollout.update(
      name='hindsight_replay',
      relabel={'name': 'maze.relabel'},
      goal_size=2,
      share=0.8,  # the authors': 4 goals in hindsight for each that was wanted
      horizon=MAX_STEPS,
  )
  config.models.critic.num = 2  # the lower one counts
  config.algorithm.update(discount=0.95, target_rate=0.01)
  config.optimizer.learning_rates.critic = 1e-3
  config.evals.episodes.max_steps = min(config.evals.episodes.max_steps, MAX_STEPS)
  config.log.headline = 'eval/episodes/success'
  if not parse_arg(arg, smoke=False).smoke:
    config.steps = 4000  # 64,000 steps of the environment
    config.rollout.update(num_envs=16, capacity=300_000, warmup_steps=1600)
    config.evals.episodes.update(every=500, episodes=128)
  return config


def claim() -> Claim:
  """The same DDPG without goals in hindsight, which is paid where it comes upon the goal."""
  return Claim(
      paper='',
      says='goals in hindsight come to more of the goals in a room that pays on arrival alone',
      reading=mean('eval/episodes/success', last=3),
      asserts=(above('no goals in hindsight', by=0.15),),
      controls=(Arm('no goals in hindsight', {'rollout.share': 0.0}),),
      minutes=4.0,
      seeds=10,
  )
