"""GRPO-RoC in the library of `library_grpo`: of sixteen episodes eight are trained on, right ones by errors.

    rlx --config=agents/library_roc --workdir=runs/library_roc

Paper: https://arxiv.org/abs/2508.20722 (no KL, and more room above; its stages of length are left out)

Result: it shows. Mean over the run of eval/sampled/understood after 100 train steps, median of 5 seeds
(worst): 0.6338 (0.5512), 'GRPO' 0.5849 (0.4556). Claimed, and got (95 % interval over seeds): above 'GRPO',
got 0.06089 (0.01118 to 0.08794); mean over the run of eval/sampled/accuracy: above 'GRPO' by -0.02, got
-0.002388 (-0.0102 to 0.003038). 418 CPU-s on 2 cores of a CPU; `rlx reproduce agents/library_roc`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import library_grpo

CLIP_HIGH = 0.28  # as in the paper


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in `library_grpo`)."""
  config = library_grpo.get_config(arg)
  arg = parse_arg(arg, smoke=False, small=False)
  group_size = 8 if arg.smoke else 16
  config.rollout = {
      'name': 'resampled_on_correct',
      'rollout': {**config.rollout.to_dict(), 'group_size': group_size},
      'group_size': group_size,
      'kept_rows': group_size // 2,
      'kind_min': 2,
      'success': 1.0,  # the return of a right answer
  }
  config.algorithm.clip_high = CLIP_HIGH
  return config


def claim() -> Claim:
  """Beside GRPO on all of the episodes, sixteen of a problem: twice the rows to learn from."""
  grpo = {'rollout.group_size': 16, 'algorithm.clip_high': CLIP_HIGH}
  return Claim(
      paper='S049',
      says='right episodes that are kept by their errors leave fewer errors than GRPO of as many episodes',
      argument='small',
      reading=mean('eval/sampled/understood'),
      asserts=(above('GRPO'), above('GRPO', by=-0.02, reading=mean('eval/sampled/accuracy'))),
      baseline=Arm('GRPO', grpo, config='agents/library_grpo:small'),
      minutes=6.0,
  )
