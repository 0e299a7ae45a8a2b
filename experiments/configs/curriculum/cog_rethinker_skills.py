"""Cog-Rethinker on chains of skills: decompose what failed, mend what still fails, learn to answer directly.

    rlx --config=curriculum/cog_rethinker_skills --workdir=runs/cog_rethinker

Paper: https://arxiv.org/abs/2510.15979.

Result: it shows. Mean of the last 10 eval/held_out/accuracy after 320 train steps, median of 5 seeds (worst):
0.5273 (0.02667), 'GRPO' 0.288 (0.02267). Claimed, and got (95 % interval over seeds): above 'GRPO', got
0.1824 (0.04733 to 0.2409); mean over the run of reward/zero_variance_fraction: below 'GRPO', got 0.1704
(0.06418 to 0.1839). 326 CPU-s on 1 cores of a CPU; `rlx reproduce curriculum/cog_rethinker_skills`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import nurl_skills
from rlx.experiments.configs.quickstart.arithmetic import GRPO


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `nurl_skills.py` (`smoke`, `small`, `steps`)."""
  config = nurl_skills.get_config(arg)
  sizes = {name: config.rollout[name] for name in ('batch_size', 'group_size', 'num_slots', 'num_retried')}
  config.rollout = {'name': 'inject.rethought', **sizes}
  config.sft.rollout.forms = ('', 'decomposed', 'refined')
  config.sft.task = config.task  # both ways of answering begin somewhere, as in the paper
  config.algorithm = {
      'name': 'cog_rethinker',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'sft_coef': 1.0,
  }
  return config


def claim() -> Claim:
  """Groups are sampled once, as many rows of a batch; the two later attempts come on top."""
  return Claim(
      paper='S101',
      says='where what failed is decomposed and mended fewer groups teach nothing, and direct answers end '
      'above those of GRPO',
      argument='small,steps=3',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(
          above('GRPO'), above('GRPO', reading=mean('reward/zero_variance_fraction', lower=True)),
      ),
      baseline=Arm('GRPO', {'rollout': nurl_skills.COMPLETIONS, 'algorithm': GRPO}),
      minutes=6.0,
  )
