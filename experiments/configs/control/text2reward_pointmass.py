"""Text2Reward: SAC brings a mass to a goal with a reward that was written as text.

Paper: Xie et al., 2023, https://arxiv.org/abs/2309.11489

    rlx --config=control/text2reward_pointmass --workdir=runs/text2reward_pointmass

Result: it shows. Mean over the run of eval/episodes/return after 4500 train steps, median of 5 seeds (worst):
-57.52 (-61.41), "the expert's reward" -56.16 (-59.71), 'paid on arrival' -198.3 (-213.4). Claimed, and got
(95 % interval over seeds): above "the expert's reward" by -15, got -0.9447 (-6.164 to 4.326); final
eval/episodes/return: above "the expert's reward" by -5, got -1.695 (-4.631 to 4.356); above 'paid on arrival'
by 50, got 128 (58.92 to 151.8). 102 CPU-s on 1 cores of a CPU; `rlx reproduce control/text2reward_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, mean
from rlx.experiments.configs.control import sac_pendulum


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = sac_pendulum.get_config(arg)
  config.env = {
      'name': 'pointmass', 'max_steps': 100, 'friction': 0.5, 'start': (-0.7, -0.7), 'start_radius': 0.2,
      'goal': (0.7, 0.7), 'obstacles': (),
  }
  config.reward = {
      'name': 'program.shaped',
      'text': '-maximum(abs(position[0] - 0.7), abs(position[1] - 0.7)) - 0.01 * sum(action ** 2)',
      'columns': {'position': ('next_observations', 0, 2), 'action': ('actions', 0, 2)},
  }
  config.algorithm = {'name': 'text2reward', 'parent': config.algorithm}
  if 'smoke' not in arg:
    config.evals.episodes.max_steps = 100
  return config


def claim() -> Claim:
  """The expert's reward is the environment's own; arrival alone is what can be paid without either."""
  paid = lambda text: {'reward.text': text}
  expert = "the expert's reward"
  return Claim(
      paper='S130',
      says='a reward written as text teaches about as fast as that of an expert, and far faster than arrival',
      reading=mean('eval/episodes/return'),
      asserts=(
          above(expert, by=-15.0),  # random actions are 170 below either
          above(expert, by=-5.0, reading=final('eval/episodes/return')),
          above('paid on arrival', by=50.0),
      ),
      baseline=Arm(expert, paid('-sqrt(sum((position - 0.7) ** 2))')),
      controls=(Arm('paid on arrival', paid('sqrt(sum((position - 0.7) ** 2)) < 0.1')),),
      minutes=4.0,
  )
