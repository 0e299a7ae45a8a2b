"""XPO: online DPO with a bonus for what the reference does not say, where it all but misses the best answer.

    rlx --config=preferences/gold_xpo --workdir=runs/gold_xpo

A bandit of eight answers, the best of which has a logit of -12 under the reference; the others are nearly as
good as each other. Pairs are of a sample of the policy and one of the reference, 64,000 in all; a sample of
the reference is the best answer once in a million.

The bonus has a gradient of α π(y) where the reference does not go: it has to be more than Adam's ε, and DPO
must not make π(y) nothing before. Where the others' rewards are as far apart as the best one is ahead (spread
1, a logit of -6, β = 0.05, α = 0.1), DPO is sure of the best of them first, and the best answer fell from
4e-4 to 3e-9. In trials α = 0.03 found it in 5 of 10 worlds, and α = 0.01 in all.

Paper: https://arxiv.org/abs/2405.21046

Result: it shows. Final eval/gold/best after 2000 train steps, median of 10 seeds (worst): 1 (1), 'online DPO'
2.632e-07 (1.029e-07), 'α = 0.001' 1 (1), 'α = 0.1' 1 (0). Claimed, and got (95 % interval over seeds): above
0.8, got 1 (1 to 1); above 'online DPO' by 0.5, got 1 (1 to 1). 23 CPU-s on 1 cores of a CPU;
`rlx reproduce preferences/gold_xpo`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.preferences import gold_dpo

BETA, ALPHA = 0.1, 0.01


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg, steps=2000)
  config.task = {'name': 'missed_worlds', 'num_answers': 8, 'missed': -12.0, 'spread': 0.1}
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
  # A logit that DPO says nothing of has a gradient of rounding, 1e-14, and of 1e-8 with the bonus.
  config.optimizer.update(learning_rate=0.05, b2=0.99, eps=1e-10)
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
      beside=(
          Arm('α = 0.001', {'algorithm.loss.weight': 0.001}), Arm('α = 0.1', {'algorithm.loss.weight': 0.1}),
      ),
      seeds=10,
      minutes=1.0,
  )
