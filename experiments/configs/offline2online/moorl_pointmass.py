"""MOORL: SAC on records and on what is tried in turn, with Reptile between the turns.

Paper: Chaudhary et al., 2025, https://arxiv.org/abs/2506.09574

    rlx --config=offline2online/moorl_pointmass --workdir=runs/moorl_pointmass

Result: it does not show. Mean of the last 20 eval/episodes/return after 5000 train steps, median of 5 seeds
(worst): -45.93 (-50.46), 'no Reptile' -40.98 (-42.18). Claimed, and got (95 % interval over seeds): above 'no
Reptile', got -5.663 (-9.275 to -3.397), the reverse holds. 299 CPU-s on 2 cores of a CPU;
`rlx reproduce offline2online/moorl_pointmass`.

Tried: a rate of 1e-3, of which the outer step halves what four updates did, came to -40.0 on three trial
seeds, and to -34.1 without Reptile. A rate of 3e-3 brings them together, and not past each other: over 3,000
steps three trial seeds come to -50.9 (-49.7 to -52.2), and to -48.9 (-47.8 to -51.0) without; all end at -25
to -27. SAC does not get unsteady there, which going back would have to mend.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.offline2online import wsrl_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = parent.get_config()
  config.stages = ('main',)
  del config.offline
  online = {**config.rollout.to_dict(), 'name': 'replay'}
  config.data = parent.records()
  config.rollout = {'name': 'mixed.alternating', 'online': online, 'share': 0.5}
  config.models.critic.num = 2
  config.optimizer = {
      'name': 'rlx.algorithms.control.moorl.reptile',
      'inner': parent.adam(3e-4),
      'inner_steps': config.updates.minibatches,  # the outer step is at the end of a train step
      'outer_rate': 0.5,
  }
  if arg.smoke:
    parent.smoke(config)
  return config


def claim() -> Claim:
  """With an outer rate of 1 it is the inner optimizer: SAC on batches of one source at a time."""
  return Claim(
      paper='S200',
      says='going part of the way back between records and trials learns more than plain SAC on both',
      reading=mean('eval/episodes/return', last=20),
      asserts=(above('no Reptile'),),
      controls=(Arm('no Reptile', {'optimizer.outer_rate': 1.0}),),
      minutes=10.0,
  )
