"""INPO: preferences go in circles; the last iterate nears the Nash policy, that of iterative DPO does not.

    rlx --config=preferences/gold_inpo --workdir=runs/gold_inpo

Three answers, each of which beats the next one with a chance of 60 to 95 %, another one in each seed; pairs
are two answers of the policy of the last round.

Paper: https://arxiv.org/abs/2407.00617

Result: it shows. Mean of the last 10 eval/gold/exploitability after 2000 train steps, median of 10 seeds
(worst): 0.01631 (0.03063), 'iterative DPO' 0.2762 (0.372), 'IPO' 0.06607 (0.0988). Claimed, and got (95 %
interval over seeds): below 0.05, got -0.01634 (-0.02061 to -0.01275); below 'iterative DPO' by 0.1, got
0.2584 (0.1894 to 0.312). 68 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_inpo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.preferences import gold_dpo

PERIOD = 10  # updates of a round
ETA, TAU = 3.0, 0.04


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg, steps=2000)
  smoke = parse_arg(arg, smoke=False).smoke
  period = 2 if smoke else PERIOD
  config.task = {'name': 'circular_worlds', 'lead_min': 0.1, 'lead_max': 0.45}
  config.slow = {'world': 'world', 'reference': 'policy', 'last': 'policy'}
  config.rollout.update(
      batch_size=256, rounds=config.steps // period, pairs=512, period=period, remembered=False,
  )
  config.rollout.names = {'policy': 'last'}
  config.algorithm = {
      'name': 'following',
      'copies': {'last': 'policy'},
      'period': period,
      'parent': {'name': 'inpo', 'eta': ETA, 'tau': TAU},
  }
  config.log.headline = 'eval/gold/exploitability'
  return config


def claim() -> Claim:
  """Iterative DPO with the same β moves its reference with the rounds; IPO (τ = η) does not move."""
  dpo = {
      'name': 'following', 'copies': {'last': 'policy', 'reference': 'policy'}, 'period': PERIOD,
      'parent': {'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': ETA}},
  }
  exploited = mean('eval/gold/exploitability', last=10, lower=True)
  return Claim(
      paper='S116',
      says='where preferences go in circles the last iterate nears the Nash policy, and that of DPO does not',
      reading=exploited,
      asserts=(reaches(-0.05), above('iterative DPO', by=0.1)),
      controls=(Arm('iterative DPO', {'algorithm': dpo}),),
      beside=(Arm('IPO', {'algorithm.parent.tau': ETA}),),
      seeds=10,
      minutes=2.0,
  )
