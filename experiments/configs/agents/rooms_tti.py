"""TTI in the rooms of `rooms_scaling`: successes are cloned, and episodes may be longer from step to step.

    rlx --config=agents/rooms_tti --workdir=runs/rooms_tti

Episodes are those of the policy itself, from nothing on; those that end at the goal are its demonstrations.

Paper: https://arxiv.org/abs/2506.07976 (that its thoughts become shorter is not tried: actions are one token)

Tried at about equal turns, in trees with two fifths of all problems held out and twice the rows, means of
four trial seeds: 0.225 from 3 to 12 turns in 120 steps, 0.198 with 12 in 60 steps, 0.228 with 3 in 240. Of
three turns a twentieth succeeds at first, which is little to clone; of twelve a sixth, most of it wandering.

With four times the steps, at equal episodes, three trial seeds ended at 0.38 (0.36 to 0.76), with 12 turns
from the start at 0.77 (0.51 to 0.80), with 3 at 0.14: there a long horizon is what pays.

Five other seeds had left both open: 0.19 (0.085) beside 0.21 (0.11) by the long horizon, and 0.11 by the
short one (above it by 0.078, -0.01 to 0.165).

Result: it does not show. Mean of the last 2 eval/held_out/accuracy after 60 train steps, median of 15 seeds
(worst): 0.175 (0.1), 'always long' 0.2 (0.11), 'always short' 0.16 (0.08). Claimed, and got (95 % interval
over seeds): above 'always long', got -0.02278 (-0.06167 to 0.02667), the run fails it; above 'always short',
got 0.02278 (-0.006667 to 0.04889), the seeds leave it open. 478 CPU-s on 2 cores of a CPU;
`rlx reproduce agents/rooms_tti`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_scaling
from rlx.experiments.configs.agents.rooms_scaling import LONG

STEPS = 60


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = rooms_scaling.rooms(arg, steps=STEPS, batch_size=32)
  config.seed = 200  # the first ones had been looked at
  config.rollout.max_turns = {
      'name': 'controllers.schedules.horizon',
      'first': 3,
      'last': LONG,
      'num_steps': STEPS // 2,
  }
  config.rollout = {'name': 'only_successes', 'rollout': config.rollout.to_dict(), 'success': 1.0}
  config.algorithm = {'name': 'sft'}
  del config['reward']
  return config


def claim() -> Claim:
  """Beside as many episodes that are as long, or as short, all the time."""
  fixed = lambda turns: {
      'rollout.rollout.max_turns': {'name': 'controllers.schedules.constant', 'value': turns}
  }
  return Claim(
      paper='S232',
      says='cloning of successes with a horizon that grows ends above a fixed one, long or short, at equal '
      'episodes',
      reading=mean('eval/held_out/accuracy', last=2),
      asserts=(above('always long'), above('always short')),
      baseline=Arm('always long', fixed(LONG)),
      beside=(Arm('always short', fixed(3)),),
      seeds=15,
      minutes=6.0,
  )
