"""SRL swings a pendulum up with a decision every eighth step, and is examined at four to eight.

Paper: Patel and Siegelmann, 2024, https://arxiv.org/abs/2410.08979

    rlx --config=experiments/configs/control/sequence_rl_pendulum.py --workdir=runs/sequence_rl_pendulum

Result: not run yet.
"""

from ml_collections import ConfigDict

from experiments.configs.control import sac_pendulum
from rlx.config import parse_arg

LENGTH = 8  # steps


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = sac_pendulum.get_config(arg)
  config.models.policy = {
      'name': 'rlx.algorithms.control.sequence_rl.gru_sequence',
      'size': 64,
      'hidden': (64,),
      'activation': 'relu',
  }
  config.models.dynamics = {
      'name': 'rlx.models.dynamics.ensemble', 'num': 1, 'hidden': (64, 64), 'activation': 'relu',
  }
  config.params.dynamics = 'dynamics'
  config.rollout.update(name='rlx.algorithms.control.sequence_rl.sequences', length=LENGTH)
  config.algorithm.update(name='sequence_rl', length=LENGTH)
  config.eval.update(name='rlx.algorithms.control.sequence_rl.decision_periods', periods=(4, 5, 8))
  if parse_arg(arg, smoke=False).smoke:
    config.eval.periods = (2,)
  return config
