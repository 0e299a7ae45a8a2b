"""PAV with the policy that SFT left as the prover: sums of six digits.

    rlx --config=credit/pav_chain --workdir=runs/pav

Paper: https://arxiv.org/abs/2410.08146. There, a trained verifier stands for the prover, alpha is 5 or 6, and
the prover is the best of four.

On three digits, in batches of 256, it did not show: median of five seeds 0.503, of the outcome alone 0.544.

Result: it shows in part. Mean of the last 10 eval/held_out/accuracy after 380 train steps, median of 5 seeds
(worst): 0.4867 (0.1809), 'the same at half the rate' 0.4867 (0.266), 'the outcome alone' 0.425 (0.1836).
Claimed, and got (95 % interval over seeds): above 'the outcome alone', got 0.03932 (0.003257 to 0.06198);
above 'the same at half the rate', got -0.01042 (-0.07383 to 0.0207), the run fails it. 1222 CPU-s on 1 cores
of a CPU; `rlx reproduce credit/pav_chain`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brpo_chain.on_sparse_chains(arg)
  config.reward = {'name': 'verifier'}
  config.slow = {'prover': 'policy'}  # as it begins
  config.algorithm = {
      'name': 'pav',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'separator': ';',
      'max_steps': 6,
      'prover_samples': 4,
      'best_of': 4,
      'alpha': 1.0,
  }
  return config


def claim() -> Claim:
  """With no weight of progress it is the outcome alone, on the policy's rows; the prover's come on top."""
  outcome = {'algorithm.alpha': 0.0}
  return Claim(
      paper='S237',
      says='progress under a prover reaches more than the outcome alone, at equal rollouts of the policy',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('the outcome alone'), above('the same at half the rate')),
      baseline=Arm('the same at half the rate', {**outcome, 'optimizer.learning_rate': 2.5e-4}),
      controls=(Arm('the outcome alone', outcome),),
      minutes=5.0,
  )
