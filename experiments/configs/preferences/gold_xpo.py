"""XPO: online DPO with a bonus for what the reference does not say, where it all but misses the best answer.

    rlx --config=preferences/gold_xpo --workdir=runs/gold_xpo

A bandit of eight answers, the best of which has a logit of -6 under the reference; pairs are of a sample of
the policy and one of the reference.

Why it need not find it: of a softmax with a logit for each answer the bonus has a gradient of α π(y) where
the reference does not go, and once DPO is sure of the best answer that it knows, that is nothing.

Paper: https://arxiv.org/abs/2405.21046

Result: it does not show. Final eval/gold/best after 1000 train steps, median of 10 seeds (worst): 2.828e-09
(1.276e-09), 'online DPO' 5.361e-07 (2.477e-07), 'α = 0.01' 7.68e-08 (1.907e-08), 'α = 1' 5.734e-09
(1.049e-09). Claimed, and got (95 % interval over seeds): above 0.8, got 3.128e-09 (2.382e-09 to 4.543e-09),
the run fails it; above 'online DPO' by 0.5, got -6.26e-07 (-1.302e-06 to -3.146e-07), the reverse holds. 35
CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_xpo`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.preferences import gold_dpo

BETA, ALPHA = 0.05, 0.1


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg, steps=1000)
  config.task = {'name': 'missed_worlds', 'num_answers': 8, 'missed': -6.0}
  config.rollout = {'name': 'gold.against', 'batch_size': 64, 'sharpness': 1.0}
  config.algorithm = {
      'name': 'dpo',
      'loss': {
          'name': 'plus',
          'first': {'name': 'sigmoid', 'beta': BETA},
          'second': {'name': 'optimism'},
          'weight': ALPHA,
      },
  }
  config.optimizer.eps = 1e-6  # a logit that DPO says nothing of has a gradient of rounding alone
  config.log.headline = 'eval/gold/best'
  return config


def claim() -> Claim:
  """With α = 0 it is online DPO, to the bit."""
  return Claim(
      paper='S245',
      says='optimism finds the best answer where the reference all but misses it, and online DPO does not',
      reading=final('eval/gold/best'),
      asserts=(reaches(0.8), above('online DPO', by=0.5)),
      controls=(Arm('online DPO', {'algorithm.loss.weight': 0.0}),),
      beside=(Arm('α = 0.01', {'algorithm.loss.weight': 0.01}), Arm('α = 1', {'algorithm.loss.weight': 1.0})),
      seeds=10,
      minutes=1.0,
  )
