"""ResFiT: a peg's way is cloned in chunks, frozen, and corrected at each step by TD3 from arrivals alone.

Paper: Ankile et al., 2025, https://arxiv.org/abs/2509.19301

    rlx --config=offline2online/resfit_insertion --workdir=runs/resfit_insertion

The peg drifts (`envs/control/insertion.py`), and a chunk of six steps is carried out without looking: the
clone inserts about half of the time.

Result: it shows. Mean of the last 5 eval/episodes/return after 6300 train steps, median of 5 seeds (worst):
0.8078 (0.7), 'the clone' 0.5547 (0.5156). Claimed, and got (95 % interval over seeds): above 'the clone' by
0.1, got 0.2422 (0.1745 to 0.2823). 306 CPU-s on 1 cores of a CPU;
`rlx reproduce offline2online/resfit_insertion`.

It falls before it rises: after 300 steps online, 1,200 updates, every seed inserts in 13 % or fewer, for the
critic does not know yet where the hole is, and after 900 in 41 % or more. With a residual of 0.2 and a third
of its rate, on trial seeds of a copy of this, it falls less (worst 21 %) and rises more slowly. On a point
mass, which arrives by a clone in every episode, nothing was left to learn.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.offline2online import wsrl_pointmass as parent

CHUNK = 6  # steps
MAX_STEPS = 30


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = parent.get_config()
  insertion = {'name': 'insertion', 'max_steps': MAX_STEPS, 'drift': 0.06, 'tolerance': 0.08}
  config.env = {'name': 'chunked', 'inner': insertion, 'chunk': CHUNK}
  config.models = {
      'policy': {
          'name': 'residual',
          'chunk': CHUNK,
          'base_hidden': (32, 32),
          'hidden': (32, 32),
          'activation': 'relu',
          'scale': 0.5,  # in units of the actions
          'exploration_noise': 0.1,
      },
      'critic': {
          'name': 'critics', 'num': 2, 'hidden': (64, 64), 'activation': 'relu', 'layer_norm': True,
      },
  }
  demonstrations = {
      'name': 'behaviours.inserting',
      'speed': 0.7,
      'gain': 3.0,
      'noise': 0.2,
      'num_envs': 50,
      'num_steps': 60,
      'discount': parent.DISCOUNT,
      'seed': 0,
  }
  config.offline.steps = 1500  # updates
  config.offline.data = demonstrations
  config.offline.rollout.batch_size = 128
  config.offline.algorithm = {'name': 'resfit.cloning'}
  config.offline.optimizer.learning_rate = 1e-3
  config.offline.trained = ('policy',)
  config.offline.slow = ConfigDict()

  config.steps = 4800  # of each of four pegs
  config.data = dict(demonstrations)
  online = {
      **config.rollout.to_dict(), 'num_envs': 4, 'capacity': 50_000, 'warmup_steps': 200, 'batch_size': 1024,
  }
  config.rollout = {'name': 'mixed', 'online': online, 'share': 0.5}
  config.algorithm = {
      'name': 'td3',
      'discount': parent.DISCOUNT,
      'smoothing_noise': 0.1,
      'noise_clip': 0.2,
      'target_rate': 0.02,
      'target_period': 1,  # updates
  }
  config.optimizer = {
      'name': 'adam_per_model',
      'learning_rates': {'policy': 1e-4, 'critic': 1e-3},
      'periods': {'policy': 1, 'critic': 1},  # updates
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
  }
  config.trained = ('policy', 'critic')
  config.slow = {'target': 'critic', 'target_policy': 'policy'}
  config.evals.episodes.update(every=300, episodes=128, max_steps=MAX_STEPS)
  config.checkpoint.every = 2400
  config.log.steps_per_dispatch = 300
  if arg.smoke:
    parent.smoke(config)
  return config


def claim() -> Claim:
  """With a residual that does not learn it stays the clone."""
  return Claim(
      paper='S176',
      says='a residual learns online what the frozen clone cannot do',
      reading=mean('eval/episodes/return', last=5),
      asserts=(above('the clone', by=0.1),),
      controls=(Arm('the clone', {'optimizer.learning_rates.policy': 0.0}),),
      minutes=10.0,
  )
