"""Dynamic reward weighting: a compromise on a front that bends inwards, which no fixed weights hold.

    rlx --config=preferences/gold_dynamic_weights --workdir=runs/gold_dynamic_weights

Two rewards are traded for each other (`gold.bent_worlds`): the compromise has less of both than half of what
each can have alone, and the policy cannot say the one extreme here and the other there. Weights follow the
hypervolume of what is reached, whose largest value on a grid of policies is 1 in the evaluation; the weights
are moved by mean rewards of samples alone.

Fixed weights, also unequal ones, end at one of the extremes. So do weights that follow gradients: an
objective whose gradient is the larger helps the sum more and is given more weight, which breaks a tie and
holds no compromise.

Paper: https://arxiv.org/abs/2509.11452

Result: it shows. Final eval/front/volume after 600 train steps, median of 10 seeds (worst): 0.9696 (0.9623),
'equal weights' 0.06268 (0.03677), '0.6 of the first' 0.06225 (0.03506), '0.7 of the first' 0.06156 (0.04985),
'by influence' 0.06221 (0.03738). Claimed, and got (95 % interval over seeds): above 'equal weights' by 0.3,
got 0.905 (0.8883 to 0.9227); budget until 0.9 of eval/front/volume: below 'equal weights', got 256.7 (240 to
280). 73 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_dynamic_weights`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, until
from rlx.experiments.configs.preferences import gold_dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task = {'name': 'bent_worlds', 'num_prompts': 64, 'num_answers': 32, 'bend': 3.0, 'tilt': 0.5}
  config.slow = {'world': 'world'}  # nothing holds the policy
  config.rollout = {'name': 'gold.groups', 'batch_size': 128, 'group_size': 8}
  config.reward = {'name': 'gold.both_sides'}
  config.algorithm = {
      'name': 'dynamic_weights.by_volume', 'clip_low': 0.2, 'clip_high': 0.2,
      'kl': {'name': 'no_kl'}, 'preferences': (1.0, 1.0), 'worthless': (0.0, 0.0),
      'strength': 1.0, 'rate': 0.2,
  }
  config.evals = {'front': {'name': 'gold.compromise', 'every': config.evals.gold.every, 'farthest': 4.0}}
  config.log.headline = 'eval/front/volume'
  return config


def claim() -> Claim:
  """Fixed weights of several kinds, and weights by gradients, are beside it."""
  fixed = lambda first: {
      'algorithm.strength': 0.0, 'algorithm.preferences': (first, round(1 - first, 1)),
  }
  influence = {'algorithm': {
      'name': 'dynamic_weights.by_influence', 'clip_low': 0.2, 'clip_high': 0.2,
      'kl': {'name': 'no_kl'}, 'num_objectives': 2, 'rate': 1.0,
  }}
  reached = until('eval/front/volume', 0.9)
  return Claim(
      paper='S213',
      says='weights that follow the hypervolume reach a compromise on a front that bends inwards, which '
      'fixed weights never come to',
      reading=final('eval/front/volume'),
      asserts=(above('equal weights', by=0.3), above('equal weights', reading=reached)),
      controls=(Arm('equal weights', fixed(0.5)),),
      beside=(
          Arm('0.6 of the first', fixed(0.6)), Arm('0.7 of the first', fixed(0.7)),
          Arm('by influence', influence),
      ),
      seeds=10,
      minutes=2.0,
  )
