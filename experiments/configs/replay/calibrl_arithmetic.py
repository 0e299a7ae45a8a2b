"""CalibRL on the addition of `red_arithmetic`: the demonstrations say how sure to be, and are not imitated.

    rlx --config=replay/calibrl_arithmetic --workdir=runs/calibrl

Paper: https://arxiv.org/abs/2602.20197; its images are left out, for nothing in it needs them.

Here supervised learning goes on to where a fifth is right, as in `quickstart/arithmetic`, and a tenth of the
problems is shown: an expert that is no target cannot teach what no sample gets right. In trials from the
start of `red_arithmetic` with λ = 0.3, held-out accuracy after 240 steps of `small`, medians of five seeds
(worst, best), was 8.3 % (0, 21.7), and entropy of samples 0.25 nats a token in the end; with demonstrations
that are imitated 32.3 % (14.0, 54.3) and 0.55; of GRPO 20.0 % (1.0, 32.0) and 0.33.

Result: it does not show. Mean of the last 3 eval/held_out/accuracy after 300 train steps, median of 5 seeds
(worst): 0.4511 (0.1789), 'imitated' 0.5056 (0.2133), 'λ = 0' 0.4811 (0.1322). Claimed, and got (95 % interval
over seeds): mean of the last 5 eval/sampled/entropy: above 'imitated', got -0.03161 (-0.07046 to -0.01045),
the reverse holds; above 'imitated' by -0.03, got -0.04 (-0.05593 to 0.002223), the run fails it; above 'λ =
0', got 0.01259 (-0.02371 to 0.04185), the seeds leave it open. 216 CPU-s on 1 cores of a CPU;
`rlx reproduce replay/calibrl_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.replay import red_arithmetic

START = {'sft.steps': 400, 'rollout.shown_share': 0.1}  # until a fifth is right; of all problems


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in `red_arithmetic`)."""
  config = red_arithmetic.get_config(arg)
  config.rollout.name = 'demonstrated.measured'
  config.rollout.shown_share = START['rollout.shown_share']
  if not parse_arg(arg, smoke=False, small=False).smoke:
    config.sft.steps = START['sft.steps']
  config.algorithm = {
      'name': 'calibrl',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'guided_coef': 0.1,
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
      baseline=Arm('imitated', {**red_arithmetic.FIXED, **START}, config='replay/red_arithmetic:small'),
      controls=(Arm('λ = 0', {'algorithm.guided_coef': 0.0}),),
      minutes=6.0,
  )
