"""FamO2O: a family of IQL policies from records of two kinds, and a balance for each state.

Paper: Wang et al., 2023, https://arxiv.org/abs/2310.17966

    rlx --config=offline2online/famo2o_pointmass --workdir=runs/famo2o_pointmass

Result: it shows. Mean of the last 20 eval/episodes/return after 10,000 train steps, median of 5 seeds
(worst): -37.79 (-42), 'one balance' -42.77 (-43.53). Claimed, and got (95 % interval over seeds): above 'one
balance', got 5.174 (2.163 to 6.677). 254 CPU-s on 2 cores of a CPU;
`rlx reproduce offline2online/famo2o_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.offline2online import wsrl_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = parent.get_config()
  shape = {'hidden': (64, 64), 'activation': 'relu'}
  config.models.members = {'name': 'family_members', **shape, 'initial_log_std': -1.0}
  config.models.balance = {'name': 'balance', **shape}
  config.models.policy = {'name': 'family'}  # of these two
  config.models.value = {'name': 'state_value', **shape}
  config.models.critic.num = 2
  config.algorithm = {
      'name': 'famo2o',
      'discount': parent.DISCOUNT,
      'target_rate': 0.005,
      'expectile': 0.7,
      'lowest': 1.0,  # one over the units of returns (the authors': 1 to 5 for locomotion)
      'highest': 5.0,
      'weight_max': 100.0,
      'target_entropy': 0.0,  # of a number in [-1, 1]; uniform is 0.69
  }
  config.trained = config.offline.trained = ('members', 'balance', 'value', 'critic', 'temperature')
  config.offline.algorithm = config.algorithm.to_dict()
  online = {**config.rollout.to_dict(), 'batch_size': 256}
  config.data = parent.records()
  config.rollout = {'name': 'mixed', 'online': online, 'share': 0.5}
  config.updates.minibatches = 1
  if arg.smoke:
    parent.smoke(config)
  return config


def claim() -> Claim:
  """The same family with its two ends together: one balance for all states."""
  return Claim(
      paper='S039',
      says='a balance for each state ends at or above a fixed one, online',
      reading=mean('eval/episodes/return', last=20),
      asserts=(above('one balance'),),
      controls=(Arm('one balance', {'algorithm.highest': 1.001, 'offline.algorithm.highest': 1.001}),),
      minutes=10.0,
  )
