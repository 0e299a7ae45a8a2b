"""SuperHF: the best of eight samples, as a reward model says, is learnt by heart, with the KL as a prior.

    rlx --config=preferences/gold_superhf --workdir=runs/gold_superhf

The reward model is linear and learns from the 768 comparisons first; the true reward is not linear. Each
method has the coefficient that was best for it on twenty other seeds: with λ of 0.3, 0.45, 0.6, 0.8, 1
SuperHF gained 0.19, 0.41, 0.58, 0.68, 0.67, with β of 0.3, 0.6, 1 the policy gradient 0.56, 0.68, 0.52. (At
0.6 for both SuperHF is 0.1 behind.) The best of 16 or 32 is no better than that of eight.

Paper: https://arxiv.org/abs/2310.16763

Result: it shows. Final eval/gold/gain after 1200 train steps, median of 20 seeds (worst): 0.6782 (0.5392),
'policy gradient' 0.6992 (0.5767), 'no prior' -0.1156 (-0.4492). Claimed, and got (95 % interval over seeds):
above 'policy gradient' by -0.1, got -0.02557 (-0.04247 to -0.004981); above 'no prior' by 0.1, got 0.7528
(0.6808 to 0.8374); final eval/gold/entropy: above 'no prior' by 0.3, got 1.4 (1.338 to 1.454). 45 CPU-s on 2
cores of a CPU; `rlx reproduce preferences/gold_superhf`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo

GRPO = {
    'name': 'grpo',
    'clip_low': 0.2,
    'clip_high': 0.2,
    'kl': {'name': 'kl_in_loss', 'coef': 0.6},
    'entropy_coef': 0.0,
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.seed = 200  # the first ones had been looked at
  config.stages = ('rewarding', 'main')
  config.models.judge = {'name': 'gold.linear'}
  config.rewarding = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('judge',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'bradley_terry', 'centring': 0.01},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.slow = {'world': 'world', 'reference': 'policy', 'judge': 'judge'}
  config.rollout = {'name': 'gold.groups', 'batch_size': 128, 'group_size': 8}
  config.reward = {'name': 'learned'}
  config.algorithm = {'name': 'superhf', 'kl_coef': 0.8}
  return config


def claim() -> Claim:
  """The mechanism off is the best of n, learnt without a prior."""
  return Claim(
      paper='S121',
      says='the best of n learnt by heart gains as much as a policy gradient, and with the KL as a prior it '
      'holds what it has gained, without which it collapses',
      reading=final('eval/gold/gain'),
      asserts=(
          above('policy gradient', by=-0.1), above('no prior', by=0.1),
          above('no prior', by=0.3, reading=final('eval/gold/entropy')),
      ),
      baseline=Arm('policy gradient', {'algorithm': GRPO}),
      controls=(Arm('no prior', {'algorithm.kl_coef': 0.0}),),
      seeds=20,
      minutes=3.0,
  )
