"""ResFiT: a driver is cloned in chunks, frozen, and corrected at each step by TD3 from arrivals alone.

Paper: Ankile et al., 2025, https://arxiv.org/abs/2509.19301

    rlx --config=offline2online/resfit_pointmass --workdir=runs/resfit_pointmass

Result: it does not show. Mean of the last 5 eval/episodes/return after 10,000 train steps, median of 5 seeds
(worst): 1 (1), 'the clone' 1 (1). Claimed, and got (95 % interval over seeds): above 'the clone' by 0.1, got
0 (0 to 0), the run fails it. 638 CPU-s on 2 cores of a CPU; `rlx reproduce offline2online/resfit_pointmass`.

The clone arrives in every episode (return 1): nothing is left for the residual. Where the clone does half of
it, fine-tuning loses that (`tests/papers/test_resfit.py`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.offline2online import wsrl_pointmass as parent

CHUNK = 8  # steps


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = parent.get_config()
  mass = {**config.env.to_dict(), 'name': 'sparse_pointmass'}
  config.env = {'name': 'chunked', 'inner': mass, 'chunk': CHUNK}
  config.models = {
      'policy': {
          'name': 'residual',
          'chunk': CHUNK,
          'base_hidden': (64, 64),
          'hidden': (64, 64),
          'activation': 'relu',
          'scale': 0.2,  # in units of the actions
          'exploration_noise': 0.05,
      },
      'critic': {
          'name': 'critics', 'num': 4, 'hidden': (64, 64), 'activation': 'relu', 'layer_norm': True,
      },
  }
  demonstrations = parent.records(gain=1.0, random_share=0.0)
  config.offline.data = demonstrations
  config.offline.algorithm = {'name': 'resfit.cloning'}
  config.offline.trained = ('policy',)
  config.offline.slow = ConfigDict()

  config.data = dict(demonstrations)
  config.rollout = {'name': 'mixed', 'online': config.rollout.to_dict(), 'share': 0.5}
  config.algorithm = {
      'name': 'td3',
      'discount': parent.DISCOUNT,
      'smoothing_noise': 0.1,
      'noise_clip': 0.2,
      'target_rate': 0.005,
      'target_period': 1,  # updates
  }
  config.optimizer = {
      'name': 'adam_per_model',
      'learning_rates': {'policy': 3e-5, 'critic': 3e-4},  # a fast residual leaves the clone too early
      'periods': {'policy': 1, 'critic': 1},  # updates
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
  }
  config.trained = ('policy', 'critic')
  config.slow = {'target': 'critic', 'target_policy': 'policy'}
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
