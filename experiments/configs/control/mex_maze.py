"""MEX finds the way through a maze that pays at its end alone.

Paper: Liu et al., 2023, https://arxiv.org/abs/2305.18258

    rlx --config=control/mex_maze --workdir=runs/mex_maze

Result: it does not show. Final eval/episodes/return after 10,000 train steps, median of 10 seeds (worst): 1
(1), 'no optimism' 1 (1). Claimed, and got (95 % interval over seeds): above 'no optimism' by 0.2, got 0 (0 to
0), the run fails it. 145 CPU-s on 1 cores of a CPU; `rlx reproduce control/mex_maze`.

The maze is too easy for its claim. Tried on five trial seeds, each arm at 1 as well: a corridor of sixteen
cells (40 steps), and this maze with half of the time. With ten times the optimism two and three seeds of five
end at 0.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.control import dqn_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = dqn_cartpole.get_config(arg)
  dqn_cartpole.make_rare(config)
  config.env = {
      'name': 'grid_maze', 'layout': 'stitch', 'starts': 'S', 'goals': 'G',
      'max_steps': 60,
  }
  config.algorithm.discount = 0.9
  config.algorithm = {'name': 'mex', 'parent': config.algorithm, 'optimism': 1e-3}
  if 'smoke' not in arg:
    config.evals.episodes.max_steps = 60
  return config


def claim() -> Claim:
  """Without optimism it is DQN."""
  return Claim(
      paper='S187',
      says='values as high as the data let them be find the end of a maze that epsilon-greedy misses',
      reading=final('eval/episodes/return'),
      asserts=(above('no optimism', by=0.2),),
      controls=(Arm('no optimism', {'algorithm.optimism': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
