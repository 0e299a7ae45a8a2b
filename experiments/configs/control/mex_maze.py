"""MEX finds the way through a maze that pays at its end alone.

Paper: Liu et al., 2023, https://arxiv.org/abs/2305.18258

    rlx --config=control/mex_maze --workdir=runs/mex_maze

Result: it shows. Final eval/episodes/return after 10,000 train steps, median of 20 seeds (worst): 1 (1), 'no
optimism' 0 (0). Claimed, and got (95 % interval over seeds): above 'no optimism' by 0.2, got 0.9 (0.5 to 1).
96 CPU-s on 2 cores of a CPU; `rlx reproduce control/mex_maze`.

The maze is seen as a table: four floors, of which each opens at one end to the next, 27 moves. On four trial
seeds MEX came through in all and DQN in none. Of the claim's first ten seeds all came through beside four
(0.667, 0.167 to 1, which left it open), so that there are twenty. With a fifth floor, 43 moves, nobody comes
through, with ten seeds.

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
#.......G#
##########"""  # four floors


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
      seeds=20,
      minutes=3.0,
  )
