"""Accelerated preference optimisation: the reference of each round is set ahead in the last one's direction.

    rlx --config=preferences/gold_apo --workdir=runs/gold_apo

Rounds of 20 updates with fresh comparisons of the reference's answers; around it DPO takes small steps, for β
is large.

Labels are of a linear reward here, so that going on is all that there is to do. Half of β, whose steps are
twice as large, is as fast: α sets the step, and what the paper gains in addition does not show.

Paper: https://arxiv.org/abs/2410.06293

Result: it shows. Mean over the run of eval/gold/gain after 400 train steps, median of 10 seeds (worst): 1.558
(1.479), 'iterative DPO' 1.487 (1.412), 'half of β' 1.548 (1.477). Claimed, and got (95 % interval over
seeds): above 'iterative DPO' by 0.05, got 0.0712 (0.06542 to 0.08032). 38 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_apo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.preferences import gold_dpo

PERIOD = 20  # updates of a round
MOMENTUM = 0.5
BETA = 2.0


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg, steps=400)
  smoke = parse_arg(arg, smoke=False).smoke
  config.task.hidden, config.task.hump = 0.0, 0.0  # what can be reached is reached by going on
  config.slow = {'world': 'world', 'reference': 'policy', 'last': 'policy'}
  period = 2 if smoke else PERIOD
  config.rollout.update(
      rounds=config.steps // period, pairs=512, period=period, remembered=False,
  )
  config.rollout.names = {'policy': 'reference'}
  config.algorithm = {
      'name': 'apo_accelerated',
      'momentum': MOMENTUM,
      'period': period,
      'parent': {'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': BETA}},
  }
  return config


def claim() -> Claim:
  """At the same β; with α = 0 it is iterative DPO, to the bit. A smaller β is beside it."""
  return Claim(
      paper='S137',
      says='extrapolation between rounds gains more of the true reward in as many rounds',
      reading=mean('eval/gold/gain'),
      asserts=(above('iterative DPO', by=0.05),),
      controls=(Arm('iterative DPO', {'algorithm.momentum': 0.0}),),
      beside=(
          Arm('half of β', {'algorithm.momentum': 0.0, 'algorithm.parent.loss.beta': BETA * (1 - MOMENTUM)}),
      ),
      seeds=10,
      minutes=2.0,
  )
