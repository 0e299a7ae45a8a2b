"""CAPO with critiques by one who knows the steps and errs now and then: sums of six digits.

    rlx --config=credit/capo_chain --workdir=runs/capo

Paper: https://arxiv.org/abs/2508.02298. There, a 70-billion-parameter model writes the critiques.

With three digits, of which most rows are soon right, critiques that never err gain nothing either
(`tests/papers/test_capo.py`). On two to six digits, flags of wrong steps alone taught to leave steps out:
rows were of 8.6 tokens in place of 10.2, and 0.41 of them right in place of 0.53 (five seeds above 99, no
errors). So an answer that leaves steps out is flagged as well (`envs.chain.leaps`).

Result: it shows. Mean of the last 10 eval/held_out/accuracy after 380 train steps, median of 8 seeds (worst):
0.4525 (0.2691), 'the same at half the rate' 0.4043 (0.2223), 'critiques weigh nothing' 0.3301 (0.1508).
Claimed, and got (95 % interval over seeds): above 'critiques weigh nothing', got 0.09385 (0.06621 to 0.1452);
above 'the same at half the rate', got 0.05185 (0.04033 to 0.06642). 591 CPU-s on 1 cores of a CPU;
`rlx reproduce credit/capo_chain`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brpo_chain.on_sparse_chains(arg)
  config.reward = {
      'name': 'toys.criticised',
      'modulus': config.task.get_ref('modulus'),
      'votes': 4,
      'error_rate': 0.1,  # a critique and step
  }
  config.algorithm = {
      'name': 'capo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'outcome_weight': 2.0,  # our choice, as is the next
      'process_weight': 1.0,
      'min_votes': 3,  # the majority of four
  }
  return config


def claim() -> Claim:
  """Beside the outcome alone at its best rate of three; with critiques that weigh nothing."""
  outcome = {'algorithm.process_weight': 0.0}
  return Claim(
      paper='S235',
      says='critiques of steps reach more than the outcome alone',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('critiques weigh nothing'), above('the same at half the rate')),
      baseline=Arm('the same at half the rate', {**outcome, 'optimizer.learning_rate': 2.5e-4}),
      controls=(Arm('critiques weigh nothing', outcome),),
      seeds=8,
      minutes=5.0,
  )
