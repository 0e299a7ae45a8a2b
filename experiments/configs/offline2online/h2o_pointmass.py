"""H2O: records of a world with an obstacle, and a simulator of it that knows of none.

Paper: Niu et al., 2022, https://arxiv.org/abs/2206.13464

    rlx --config=offline2online/h2o_pointmass --workdir=runs/h2o_pointmass

A third of the records goes past either side of the obstacle, which is in the middle of the way, and a third
runs into it. The setting is that of eight trial seeds, of which seven were above: -129 beside -139 in the
mean of the last five.

Result: it does not show. Mean over the run of eval/episodes/return after 3000 train steps, median of 60 seeds
(worst): -139.3 (-172), 'no gap' -143.5 (-153.9). Claimed, and got (95 % interval over seeds): above 'no gap'
by 2, got 4.365 (0.6688 to 7.908), the seeds leave it open. 693 CPU-s on 2 cores of a CPU;
`rlx reproduce offline2online/h2o_pointmass`.

Twenty seeds before said that it is above at all, and left open whether it is so by 2: 6.1 (1.4 to 11.7).
These are the next sixty. Both say that it is above at all, neither that it is so by 2.

What was tried at first, on three to five seeds each: where the simulator lacks friction (2), and not the
obstacle, the reverse holds (-77 and -67, as claimed at first); where it has friction that the world lacks,
-79 and -76. Where nothing in the records goes round the obstacle, -93 with the gap and without. Over 5,000
steps and pushed with 0.1, as here otherwise, -123 and -126, one seed below. With an obstacle of 0.6, passed
at 0.7, -155.6 and -163 (eight trial seeds, five above).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.offline2online import wsrl_pointmass as parent

VIAS = ((-0.5, 0.5), (0.5, -0.5), parent.GOAL)  # past either side, and straight into it


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = parent.get_config()
  config.stages = ('main',)
  del config.offline
  config.seed = 220  # the first ones had been looked at
  config.steps = 3000
  online = {**config.rollout.to_dict(), 'name': 'replay', 'batch_size': 256}
  config.data = parent.records(name='behaviours.detouring', vias=VIAS)
  del config.data['random_share']
  config.rollout = {
      'name': 'mixed.simulated',
      'simulator': config.env.to_dict(),
      'online': online,
      'share': 0.5,
  }
  config.env.obstacles = ((0.0, 0.0, 0.4),)  # x, y, radius in m
  config.models.critic.num = 2
  config.models.gap = {
      'name': 'dynamics_gap', 'hidden': (64, 64), 'activation': 'relu',
  }
  config.trained += ('gap',)
  config.algorithm = {
      'name': 'h2o',
      'discount': parent.DISCOUNT,
      'target_rate': 0.005,
      'target_entropy': -1.0,
      'push_coef': 0.01,  # (the authors': 0.01)
      'most_gap': 10.0,
      'least_weight': 1e-5,
      'most_weight': 1.0,
      'num_next': 10,
      'next_noise': 0.01,  # in units of the observations
      'input_noise': 0.01,  # in units of observations and actions
  }
  config.updates.minibatches = 1
  if arg.smoke:
    config.rollout.simulator.max_steps = 10
    parent.smoke(config)
  return config


def claim() -> Claim:
  """Without what the gap does: no values are pushed, and every error of the simulator counts."""
  return Claim(
      paper='S193',
      says='records of a world with an obstacle mend a simulator that knows of none',
      reading=mean('eval/episodes/return'),
      asserts=(above('no gap', by=2.0),),
      controls=(Arm('no gap', {'algorithm.push_coef': 0.0, 'algorithm.least_weight': 1.0}),),
      seeds=60,
      minutes=30.0,
  )
