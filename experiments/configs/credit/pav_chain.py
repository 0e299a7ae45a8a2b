"""PAV with the policy that SFT left as the prover: sums of up to four digits, three seeds.

    rlx --config=credit/pav_chain --workdir=runs/pav

Paper: https://arxiv.org/abs/2410.08146. There, a trained verifier stands for the prover, alpha is 5 or 6, and
the prover is the best of four.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 360 train steps, median of 5 seeds
(worst): 0.5033 (0.384), 'the outcome alone' 0.5437 (0.305). Claimed, and got (95 % interval over seeds):
above 'the outcome alone', got 0.05022 (-0.06078 to 0.08611), the seeds leave it open. 2166 CPU-s on 2 cores
of a CPU; `rlx reproduce credit/pav_chain`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brpo_chain.on_chains(arg)
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


def claim() -> Claim:
  """With no weight of progress it is the outcome alone, on the policy's rows; the prover's come on top."""
  return Claim(
      paper='S237',
      says='progress under a prover reaches more than the outcome alone, at equal rollouts of the policy',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('the outcome alone'),),
      controls=(Arm('the outcome alone', {'algorithm.alpha': 0.0}),),
      minutes=12.0,
  )
