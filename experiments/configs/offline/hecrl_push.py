"""HECRL on a grid with two blocks, from pushes that seldom get their way.

Paper: Haramati et al., 2026, https://arxiv.org/abs/2602.02722

    rlx --config=offline/hecrl_push --workdir=runs/hecrl_push

In evaluations of 32 episodes, as they were before, ten other seeds left it open whether subgoals place more
blocks (0.023, from -0.018 to 0.047): so few episodes say little of a seed. That it arrives more often, with
all blocks and the agent in place, is not claimed.

Result: it shows. Final eval/episodes/placed after 3000 train steps, median of 10 seeds (worst): 0.4805
(0.3438), 'the flat policy' 0.4258 (0.3262). Claimed, and got (95 % interval over seeds): above 'the flat
policy', got 0.04362 (0.02116 to 0.06283). 690 CPU-s on 2 cores of a CPU; `rlx reproduce offline/hecrl_push`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import gciql_corridor as parent

SIZE = 5  # cells
WAVELENGTHS = (10.0, 5.0, 2.5)  # cells
DISCOUNT = 0.95
NEAR_STEPS = 8


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of gciql_corridor."""
  config = parent.get_config(arg)
  config.seed = 10  # the first ones had been looked at
  flat = {'features': 2, 'wavelengths': WAVELENGTHS, 'hidden': (64, 64), 'activation': 'relu'}
  # Of places on a grid the last wavelength says how far from one they are.
  denoiser = {**flat, 'wavelengths': (*WAVELENGTHS, 1.0), 'hidden': (64, 64, 64)}
  config.env = {'name': 'push_grid', 'size': SIZE, 'num_blocks': 2, 'max_steps': 60}
  config.models = {
      'policy': {'name': 'entity_policy', **flat},
      'value': {'name': 'entity_value', **flat},
      'critic': {'name': 'entity_critics', 'num': 1, **flat},
      'subgoals': {
          'name': 'entities.denoiser',
          **denoiser,
          'num_levels': 10,
          'limit': 2.2,  # coordinates reach 2
      },
  }
  config.trained = ('policy', 'value', 'critic', 'subgoals')
  config.slow = {'target': 'critic'}
  config.data = {  # 40,000 transitions
      'name': 'behaviours.noisy_pushes',
      'size': SIZE,
      'random_share': 0.6,
      'num_envs': 200,
      'num_steps': 200,
      'discount': DISCOUNT,
      'seed': 0,
  }
  config.steps = 3000
  config.rollout.update(goal_size=6, waypoint_steps=NEAR_STEPS)  # a whole state: x, y of three entities
  config.rollout.policy_goals = {'geometric': 0.2, 'uniform': 0.8}
  config.algorithm.update(discount=DISCOUNT, expectile=0.9)
  config.algorithm = {'name': 'hecrl', 'parent': config.algorithm}
  config.optimizer.learning_rate = 2e-3
  config.evals.episodes = {
      'name': 'subgoal_episodes',
      'every': config.steps,  # episodes cost more than the training
      'num_samples': 16,
      'near': -(1 - DISCOUNT**NEAR_STEPS) / (1 - DISCOUNT),  # what so many steps cost
      'keep_steps': 3,
      'tolerance': 0.5,  # cells
      'episodes': 256,
      'max_subgoals': 30,
      'max_steps': 60,
  }
  config.log.headline = 'eval/episodes/placed'
  if parse_arg(arg, smoke=False).smoke:
    config.steps = 4
    config.data.update(num_envs=3, num_steps=20)
    config.rollout.batch_size = 16
    config.evals.episodes.update(every=2, episodes=2, num_samples=2, max_subgoals=2, max_steps=4)
  return config


def claim() -> Claim:
  """The same networks: a goal that always counts as near is pursued by the flat policy."""
  return Claim(
      paper='S076',
      says='subgoals place more blocks than the flat policy that pursues them',
      reading=final('eval/episodes/placed'),
      asserts=(above('the flat policy'),),
      controls=(Arm('the flat policy', {'evals.episodes.near': -1e9}),),
      seeds=10,
      minutes=12.0,
  )
