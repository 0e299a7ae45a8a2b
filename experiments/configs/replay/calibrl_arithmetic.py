"""CalibRL on the addition of `red_arithmetic`: the demonstrations say how sure to be, and are not imitated.

    rlx --config=replay/calibrl_arithmetic --workdir=runs/calibrl

Paper: https://arxiv.org/abs/2602.20197; its images are left out, for nothing in it needs them.

Result: does not show, the reverse does. Held-out accuracy after 240 steps of `small`, medians of five
seeds (worst, best): 8.3 % (0, 21.7), and entropy of samples 0.25 nats a token in the end; with
demonstrations that are imitated (`red_arithmetic` at a fixed weight) 32.3 % (14.0, 54.3) and 0.55; GRPO
20.0 % (1.0, 32.0) and 0.33. From 20 % on, a tenth of the problems shown and λ = 0.1, an earlier form came
to 49.7 % (imitated 47.3 %, GRPO 44.0 %) at no more entropy.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.replay import red_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in `red_arithmetic`)."""
  config = red_arithmetic.get_config(arg)
  config.rollout.name = 'demonstrated.measured'
  config.algorithm = {
      'name': 'calibrl',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'guided_coef': 0.3,
      'slope': 0.5,  # as in the authors' code
  }
  return config


def claim() -> Claim:
  """Beside demonstrations that are imitated; with λ = 0 it is GRPO."""
  entropy = mean('eval/sampled/entropy', last=5)
  return Claim(
      paper='S082',
      says='an expert as a measure leaves more entropy than imitation does, at no less accuracy',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('imitated', reading=entropy), above('imitated', by=-0.03), above('λ = 0')),
      baseline=Arm('imitated', red_arithmetic.FIXED, config='replay/red_arithmetic:small'),
      controls=(Arm('λ = 0', {'algorithm.guided_coef': 0.0}),),
      minutes=6.0,
  )
