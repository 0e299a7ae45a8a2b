"""PAV with the policy that SFT left as the prover: sums of up to four digits, three seeds.

    rlx --config=credit/pav_chain --workdir=runs/pav

Paper: https://arxiv.org/abs/2410.08146. There, a trained verifier stands for the prover, alpha is 5 or 6, and
the prover is the best of four.

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brpo_chain.get_config(arg)
  config.reward = {'name': 'verifier'}
  config.slow = {'prover': 'policy'}  # as it begins
  config.algorithm = {
      'name': 'pav',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'separator': ';',
      'max_steps': 4,
      'prover_samples': 4,
      'best_of': 4,
      'alpha': 1.0,
  }
  return config
