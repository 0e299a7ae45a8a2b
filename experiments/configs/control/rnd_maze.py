"""RND finds the way through a corridor that pays at its end alone; `spread=0.3` makes it RDD.

Paper: Burda et al., 2018, https://arxiv.org/abs/1810.12894; Fang et al., 2025,
https://arxiv.org/abs/2505.11044

    rlx --config=control/rnd_maze --workdir=runs/rnd_maze

Result: it shows in part. Budget until 0.5 of eval/episodes/return after 100 train steps, median of 120 seeds
(worst): 12 (86), 'RND' 16 (100), 'no bonus' 100 (100). Claimed, and got (95 % interval over seeds): below
'RND', got 1.033 (-1.233 to 3.833), the seeds leave it open; below 'no bonus' by 20, got 68.33 (56.77 to
76.97). 81 CPU-s on 2 cores of a CPU; `rlx reproduce control/rnd_maze`.

Over the seeds 0 to 19 it was open which bonus is sooner: 21 (52) beside 23 (100), 3.8 train steps apart (-3.4
to 11.2). So many seeds more were taken, 20 to 139.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.envs.control.maze import corridor
from rlx.experiments.claims import Arm, Claim, above, until
from rlx.experiments.configs.control import ppo_cartpole

LENGTH = 40  # cells: a corridor
MAX_STEPS = 2 * LENGTH


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `spread` (of the target's output; 0 is RND)."""
  arg = parse_arg(arg, smoke=False, spread=0.0)
  config = ppo_cartpole.get_config('smoke' if arg.smoke else '')
  config.seed = 20  # the first ones had been looked at
  config.env = {
      'name': 'tabular_maze', 'layout': corridor(LENGTH), 'starts': 'S', 'goals': 'G', 'max_steps': MAX_STEPS,
  }
  config.models.policy.hidden = config.models.value.hidden = ()  # tables
  features = {'name': 'outputs_of', 'num': 8, 'hidden': (), 'activation': 'relu', 'layer_norm': False}
  config.models.update(bonus_value=config.models.value, predictor=features, target=features)
  config.trained = ('policy', 'value', 'bonus_value', 'predictor')
  config.slow = {'target': 'target'}
  config.algorithm.update(name='rnd', bonus_coef=1.0, bonus_discount=0.95, spread=arg.spread)
  config.optimizer.update(learning_rate=3e-2, decay_steps=0)
  if not arg.smoke:
    config.steps, config.log.steps_per_dispatch = 100, 2
    config.rollout.update(num_envs=4, num_steps=32)
    config.updates.minibatches = 2
    config.evals.episodes.update(every=2, max_steps=MAX_STEPS)
  return config


def claim() -> Claim:
  """Of RDD (S219), beside RND and PPO: the maze pays at its end alone."""
  return Claim(
      paper='S219',
      says='the bonus of a random target finds the end of a sparse maze sooner than that of a fixed one',
      argument='spread=0.3',
      reading=until('eval/episodes/return', at_least=0.5),
      asserts=(above('RND'), above('no bonus', by=20)),
      baseline=Arm('RND', {'algorithm.spread': 0.0}),
      controls=(Arm('no bonus', {'algorithm.bonus_coef': 0.0}),),
      seeds=120,
      minutes=9.0,
  )
