"""MEX finds the way through a maze that pays at its end alone.

Paper: Liu et al., 2023, https://arxiv.org/abs/2305.18258

    rlx --config=control/mex_maze --workdir=runs/mex_maze

Result: it does not show. Final eval/episodes/return after 10,000 train steps, median of 10 seeds (worst): 0
(0), 'no optimism' 0 (0). Claimed, and got (95 % interval over seeds): above 'no optimism' by 0.2, got 0 (0 to
0), the run fails it. 53 CPU-s on 1 cores of a CPU; `rlx reproduce control/mex_maze`.

The maze is seen as a table. Its five floors are longer than any that was tried before the claim was run: the
settings were chosen with four floors and G below the last opening, 27 moves, where MEX came through in four
trial seeds of four and DQN in none. With 43 moves nobody does.

Tried besides: with hidden layers both arms ended at 1 in 'stitch' (60 steps, ten seeds) and in a corridor of
sixteen cells; as a table 'stitch' is as easy. With three floors, 25 moves, a target that is copied every 200
updates, which hands hope on by a step each time, and a rate of 5e-4 left everybody at 0; every 20 and with
2e-3 MEX came through in two trial seeds of three and DQN in one. Adam's eps of 1e-5 was above the gradients
of what is seldom tried: with 1e-8 MEX came through in four of four, and DQN in three. An optimism of 3e-3
came through in one of three.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.control import dqn_cartpole

LAYOUT = """
##########
#S.......#
########.#
#........#
#.########
#........#
########.#
#........#
#.########
#.......G#
##########"""  # five floors, 43 moves


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = dqn_cartpole.get_config(arg)
  dqn_cartpole.make_rare(config)
  config.env = {'name': 'tabular_maze', 'layout': LAYOUT, 'starts': 'S', 'goals': 'G', 'max_steps': 80}
  config.models.policy.network.hidden = ()
  config.algorithm.update(discount=0.97, target_period=20)
  config.algorithm = {'name': 'mex', 'parent': config.algorithm, 'optimism': 3e-4}
  config.optimizer.update(learning_rate=2e-3, eps=1e-8)
  if 'smoke' not in arg:
    config.evals.episodes.max_steps = 80
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
