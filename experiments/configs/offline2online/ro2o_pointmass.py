"""RO2O: an ensemble that is smooth around what it sees, by the same loss from records and online.

Paper: Wen et al., 2024, https://arxiv.org/abs/2309.16973

    rlx --config=offline2online/ro2o_pointmass --workdir=runs/ro2o_pointmass

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.offline2online import wsrl_pointmass as parent

STAGES = ('algorithm', 'offline.algorithm')
TERMS = ('value_smoothness', 'policy_smoothness', 'doubt_coef')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = parent.get_config()
  config.algorithm = {
      'name': 'ro2o',
      'parent': config.algorithm,
      'radius': 0.01,  # of the observations (the authors': 0.005 to 0.01, of normalised ones)
      'num_perturbations': 10,  # (the authors': 20)
      'asymmetry': 0.2,
      'value_smoothness': 1e-4,
      'policy_smoothness': 0.1,  # (the authors': 0.1 to 1)
      'doubt_coef': 0.1,
      'doubt_deviations': 1.0,  # (the authors': 1, falling to 0.1)
  }
  config.offline.algorithm = config.algorithm.to_dict()
  config.data = parent.records()
  config.rollout = {'name': 'mixed', 'online': config.rollout.to_dict(), 'share': 0.5}
  if arg.smoke:
    parent.smoke(config)
  return config


def claim() -> Claim:
  """Without the three terms, in both stages."""
  return Claim(
      paper='S196',
      says='smooth values and policies earn more online than those of the plain ensemble',
      reading=mean('eval/episodes/return', last=20),
      asserts=(above('not smooth'),),
      controls=(Arm('not smooth', {f'{stage}.{term}': 0.0 for stage in STAGES for term in TERMS}),),
      minutes=20.0,
  )
