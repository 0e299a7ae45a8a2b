"""Cog-Rethinker on chains of skills: decompose what failed, mend what still fails, learn to answer directly.

    rlx --config=curriculum/cog_rethinker_skills --workdir=runs/cog_rethinker

Paper: https://arxiv.org/abs/2510.15979.

Result: it shows in part. Mean of the last 10 eval/held_out/accuracy after 163,840 rollouts, median of 5 seeds
(worst): 0.5273 (0.02667), 'GRPO' 0.521 (0.04667). Claimed, and got (95 % interval over seeds): above 'GRPO',
got -0.04211 (-0.1419 to 0.01955), the run fails it; mean over the run of reward/zero_variance_fraction: below
'GRPO', got 0.1452 (0.0409 to 0.2094). 357 CPU-s on 1 cores of a CPU;
`rlx reproduce curriculum/cog_rethinker_skills`.

Beside GRPO with half of the rollouts, as many rows as a batch has, it was above: 0.5273 beside 0.288.
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
  """Groups are sampled once, and as many rows as with the two later attempts."""
  rows = nurl_skills.COMPLETIONS['batch_size'] + 2 * nurl_skills.AGAIN
  once = {**nurl_skills.COMPLETIONS, 'batch_size': rows}
  return Claim(
      paper='S101',
      says='where what failed is decomposed and mended fewer groups teach nothing, and direct answers end '
      'above those of GRPO',
      argument='small,steps=3',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(
          above('GRPO'), above('GRPO', reading=mean('reward/zero_variance_fraction', lower=True)),
      ),
      cost=rows,
      budget_name='rollouts',
      baseline=Arm('GRPO', {'rollout': once, 'algorithm': GRPO}, cost=rows),
      minutes=6.0,
  )
