"""DR-IRL: rewards of categories from demonstrations, and GRPO that is scaled by how hard a prompt is.

    rlx --config=preferences/gold_dr_irl --workdir=runs/gold_dr_irl

Two categories have 40 of 64 prompts, six have four each, and each has features of its own
(`gold.tailed_worlds`). A linear reward model, which is one for each category, learns from eight
demonstrations a prompt against samples of the reference, as often from each category. Then a sample weighs
more where it is far from the demonstrations and its prompt's reward below theirs. Adam has an eps of 1, which
makes it SGD with momentum: as it is, it would make steps of rare categories as large as others.

Paper: https://arxiv.org/abs/2503.18991

Result: it shows. Final eval/categories/tail after 1800 train steps, median of 10 seeds (worst): 1.576
(1.307), 'GRPO' 1.51 (1.265). Claimed, and got (95 % interval over seeds): above 'GRPO', got 0.0589 (0.03845
to 0.07893); mean over the run of eval/categories/tail: above 'GRPO' by 0.02, got 0.06091 (0.04995 to
0.06992); final eval/categories/head: above 'GRPO' by -0.02, got 0.01188 (-0.002408 to 0.02802). 71 CPU-s on 2
cores of a CPU; `rlx reproduce preferences/gold_dr_irl`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, mean
from rlx.experiments.configs.preferences import gold_dpo, gold_superhf

SIZES = (20, 20, 4, 4, 4, 4, 4, 4)
KL_COEF = 0.1


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task = {
      'name': 'tailed_worlds', 'sizes': SIZES, 'num_answers': 32, 'width': 6, 'hidden': 0.5, 'shown': 8,
      'beta': 0.5,
  }
  config.stages = ('inverse', 'main')
  config.models.judge = {'name': 'gold.linear'}
  config.inverse = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('judge',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': {'name': 'gold.against_shown', 'batch_size': 128, 'balanced': True},
      'algorithm': {'name': 'bradley_terry', 'centring': 0.01},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.steps *= 2
  config.slow = {'world': 'world', 'reference': 'policy', 'judge': 'judge'}
  config.rollout = {'name': 'gold.groups', 'batch_size': 128, 'group_size': 8}
  config.reward = {'name': 'as_shown'}
  config.algorithm = {
      'name': 'grpo_s', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'kl_in_loss', 'coef': KL_COEF},
      'deviation_max': 4.0,
  }
  config.optimizer.update(learning_rate=0.1, eps=1.0)
  config.evals = {'categories': {'name': 'gold.by_category', 'every': config.evals.gold.every, 'head': 2}}
  config.log.headline = 'eval/categories/tail'
  return config


def claim() -> Claim:
  """The mechanism off is GRPO with the same rewards, of which all samples count the same."""
  head = final('eval/categories/head')
  kl = {'name': 'kl_in_loss', 'coef': KL_COEF}
  return Claim(
      paper='S157',
      says='GRPO that is scaled by hardness and reward gap gains more in rare categories, and no less in '
      'frequent ones, with rewards of categories that were learnt from demonstrations',
      reading=final('eval/categories/tail'),
      asserts=(
          above('GRPO'), above('GRPO', by=0.02, reading=mean('eval/categories/tail')),
          above('GRPO', by=-0.02, reading=head),
      ),
      baseline=Arm('GRPO', {'algorithm': {**gold_superhf.GRPO, 'kl': kl}}),
      seeds=10,
      minutes=2.0,
  )
