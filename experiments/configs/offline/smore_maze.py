"""SMORe in a bent maze that is seen as a table, from random moves.

Paper: Sikchi et al., 2023, https://arxiv.org/abs/2311.02013

    rlx --config=offline/smore_maze --workdir=runs/smore_maze

Result: it shows. Final eval/episodes/return after 2000 train steps, median of 10 seeds (worst): 0.875
(0.8594), 'cloning in hindsight' 0.6953 (0.625). Claimed, and got (95 % interval over seeds): above 'cloning
in hindsight', got 0.1823 (0.1615 to 0.2031). 57 CPU-s on 1 cores of a CPU;
`rlx reproduce offline/smore_maze`.

Policies are sampled. With the likeliest moves, three trial seeds of cloning in hindsight came to 0.69
(median) and of SMORe to 0.75.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import gciql_corridor as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of gciql_corridor."""
  config = parent.get_config(arg)
  config.env = {'name': 'tabular_maze', 'layout': 'u', 'starts': 'SMG.', 'goals': 'SMG.', 'max_steps': 20}
  config.rollout.update(goal_size=11, tolerance=0.5)  # one-hot: the free cells
  config.optimizer.learning_rate = 3e-3
  if not parse_arg(arg, smoke=False).smoke:
    config.evals.episodes.update(name='sampled_episodes', episodes=64, max_steps=15)
  config.data = {'name': 'random', 'num_envs': 100, 'num_steps': 60, 'discount': 0.9, 'seed': 0}
  config.rollout.value_goals = {'geometric': 0.5, 'random': 0.5}
  config.rollout.policy_goals = {'geometric': 1.0}
  config.rollout.discount = 0.9
  config.algorithm = {
      'name': 'smore',
      'discount': 0.9,
      'target_rate': 0.02,
      'expectile': 0.8,
      'mixture': 0.5,
      'sharpness': 3.0,
      'weight_max': 100.0,
  }
  return config


def claim() -> Claim:
  """Without sharpness it clones what came to a goal in hindsight."""
  return Claim(
      paper='S069',
      says='scores of actions for goals beat cloning in hindsight, from random walks',
      reading=final('eval/episodes/return'),
      asserts=(above('cloning in hindsight'),),
      controls=(Arm('cloning in hindsight', {'algorithm.sharpness': 0.0}),),
      seeds=10,
      minutes=3.0,
  )
