"""HRPO on two-digit addition: the quickstart with a decoder that reads what it drew its tokens from.

    rlx --config=latent/hrpo_arithmetic --workdir=runs/hrpo

Paper: https://arxiv.org/abs/2505.18454. There, only what stands before the answer is hybrid; here an answer
is all that is said, so all of it is. The authors train gates and Λ at 20 and 200 times the rate of the rest;
here one rate serves all three.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 400 train steps, median of 10 seeds
(worst): 0.7405 (0.3247), 'GRPO' 0.7422 (0.2563), 'closed gate' 0.7408 (0.3413). Claimed, and got (95 %
interval over seeds): above 'GRPO', got 0.006833 (-0.1692 to 0.2554), the seeds leave it open. 855 CPU-s on 1
cores of a CPU; `rlx reproduce latent/hrpo_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.models.policy = {
      'name': 'hybrid',  # SFT leaves its gate alone
      'decoder': config.models.policy,
      'r_min': 0.98,  # share of the token when the gate is widest, at the start
      'r_max': 0.999,
  }
  config.slow = {'reference': 'policy'}
  config.rollout = {
      'name': 'latent.completions',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
      'answer_start': '',  # no token ends the hybrid part
  }
  config.algorithm = {
      'name': 'hrpo',
      'kl_coef': 0.005,
      'clip_low': 0.2,
      'clip_high': 0.2,
  }
  config.evals.held_out.update(name='verified_with_latents', answer_start='')
  return config


def claim() -> Claim:
  """Beside GRPO of the decoder alone; with a gate that lets hardly anything in."""
  return Claim(
      paper='S053',
      says='a policy that reads what it drew its tokens from ends above one that reads tokens alone',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', config='quickstart/arithmetic:small'),
      controls=(Arm('closed gate', {'models.policy.r_min': 0.9999, 'models.policy.r_max': 0.99999}),),
      seeds=10,
      minutes=12.0,
  )
