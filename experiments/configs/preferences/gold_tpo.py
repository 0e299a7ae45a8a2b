"""TPO: comparisons and gold answers in one stage, against DPO from the base and the gold answers alone.

    rlx --config=preferences/gold_tpo --workdir=runs/gold_tpo

Gold answers are of the best policy at a price of 0.5 a nat, the same that `eval/taught/nll` is of.

Paper: https://arxiv.org/abs/2405.16681

Result: it shows in part. Final eval/taught/right after 600 train steps, median of 10 seeds (worst): 0.7673
(0.748), 'DPO' 0.8069 (0.7611), 'no gold' 0.8084 (0.7667), 'gold alone' 0.7612 (0.7441). Claimed, and got (95
% interval over seeds): above 'DPO', got -0.0443 (-0.05397 to -0.03205), the reverse holds; final
eval/taught/nll: below 'DPO', got 3.971 (3.752 to 4.416); above 'no gold', got -0.04299 (-0.05465 to
-0.03039), the reverse holds; final eval/taught/nll: below 'no gold', got 4.054 (3.819 to 4.491). 73 CPU-s on
2 cores of a CPU; `rlx reproduce preferences/gold_tpo`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo

TEACHER = 0.5


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.rollout = {
      'name': 'gold.beside_the_best', 'beta': TEACHER, 'rollout': config.rollout.to_dict(),
  }
  config.algorithm = {'name': 'tpo', 'beta': gold_dpo.BETA, 'nll_coef': 1.0}
  config.slow = {'world': 'world'}
  config.evals.taught = {'name': 'gold.taught', 'every': config.evals.gold.every, 'beta': TEACHER}
  return config


def claim() -> Claim:
  """The mechanism off has no gold answers; gold answers alone are beside it."""
  dpo = {'algorithm': gold_dpo.DPO, 'slow': {'world': 'world', 'reference': 'policy'}}
  nll = final('eval/taught/nll', lower=True)
  return Claim(
      paper='S145',
      says='one stage of triples ends with a smaller NLL of gold answers and orders more pairs right than '
      'DPO from the base',
      reading=final('eval/taught/right'),
      asserts=(above('DPO'), above('DPO', reading=nll), above('no gold'), above('no gold', reading=nll)),
      baseline=Arm('DPO', dpo),
      controls=(Arm('no gold', {'algorithm.nll_coef': 0.0}),),
      beside=(Arm('gold alone', {'algorithm.nll_coef': 1000.0}),),
      seeds=10,
      minutes=2.0,
  )
