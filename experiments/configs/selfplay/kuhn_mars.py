"""MARS on Kuhn's poker whose seats are worth unequal: advantages of turns, normalised seat by seat.

    rlx --config=selfplay/kuhn_mars --workdir=runs/kuhn_mars

Paper: https://arxiv.org/abs/2510.15414

The first player pays the second 1 for every game. How the game is best played does not change by that, but
what is to be expected of a seat does. The policy is held to a copy that lags behind, as in `kuhn_magnet`.

Result: it shows. Mean over the run of eval/nash/nash_conv after 400 train steps, median of 5 seeds (worst):
0.8072 (0.8862), 'pooled' 0.8602 (0.9486). Claimed, and got (95 % interval over seeds): below 'pooled', got
0.05117 (0.0296 to 0.06631). 152 CPU-s on 2 cores of a CPU; `rlx reproduce selfplay/kuhn_mars`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.selfplay import kuhn_magnet


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = kuhn_magnet.get_config(arg, steps=400)
  config.task = {'name': 'worlds.tables.kuhn', 'handicap': 1.0}
  config.algorithm.parent = ConfigDict({
      'name': 'policy_gradient',
      'baseline': {'name': 'advantages.seats.by_seat', 'discount': 0.99},
      'weight': {'name': 'losses.weights.equal'},
      'level': {'name': 'losses.ratios.ratio'},
      'surrogate': {'name': 'losses.policy.clipped', 'clip_low': 0.2, 'clip_high': 0.2},
      'reduction': {'name': 'reductions.constant_length_sum', 'length': 1},
      'kl': {'name': 'kl_in_loss', 'coef': config.algorithm.parent.kl.coef},
      'kl_estimator': {'name': 'losses.regularizers.kl_k3'},
      'entropy_coef': 0.0,
      'correction': {'name': 'losses.corrections.none'},
      'correction_level': {'name': 'losses.ratios.ratio'},
  })
  return config


def claim() -> Claim:
  """Beside one baseline for both seats, which is the mechanism off."""
  pooled = {'algorithm.parent.baseline': {'name': 'advantages.seats.of_all_seats', 'discount': 0.99}}
  return Claim(
      paper='S003',
      says='exploitability falls faster where advantages are normalised by role than where they are pooled',
      reading=mean('eval/nash/nash_conv', lower=True),
      asserts=(above('pooled'),),
      baseline=Arm('pooled', pooled),
      minutes=5.0,
  )
