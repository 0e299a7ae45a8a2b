"""SWE-RM: of two verifiers that put answers in the same order, the worse calibrated one is the worse reward.

    rlx --config=preferences/gold_verifier --workdir=runs/gold_verifier

A linear verifier learns from verdicts of a rule on answers of the reference, half of which are right. Its
chances are the reward of a policy gradient (Dr. GRPO). Another one says the same log-odds four times as
large: the order of answers, the best of n and the AUC are the same, up to rounding, and it is too sure. What
the KL costs was set after closed-form optima for log-odds of a tenth to ten times the size had been looked at
in five other worlds.

A verifier that is too sure costs next to nothing here: with an AUC of 0.93 and a best of eight that is right
in 94 %, 87 % of the policy's answers are right with it and without. One that is not sure enough costs more,
as a smaller reward beside the same KL does. That the calibration error differs (0.03 and 0.12) is how the
arms were made.

Paper: https://arxiv.org/abs/2512.21919

Result: it shows in part. Final eval/verifier/right after 1200 train steps, median of 10 seeds (worst): 0.8735
(0.8558), 'too sure' 0.8706 (0.8545), 'not sure enough' 0.8199 (0.7847). Claimed, and got (95 % interval over
seeds): above 'too sure' by 0.02, got 0.0008883 (-0.00152 to 0.005038), the run fails it; final
eval/gold/gain: above 'too sure', got 0.008687 (0.000385 to 0.0264); final eval/verifier/calibration_error:
below 'too sure' by 0.05, got 0.08529 (0.0795 to 0.08954). 70 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_verifier`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo

BAR = 0.0
KL_COEF = 0.1


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task.hump = 0.0
  config.stages = ('verifying', 'main')
  config.models.judge = {'name': 'gold.linear'}
  config.verifying = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('judge',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': {'name': 'gold.verdicts', 'batch_size': 128, 'bar': BAR},
      'algorithm': {'name': 'pointwise'},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.slow = {'world': 'world', 'reference': 'policy', 'judge': 'judge'}
  config.rollout = {'name': 'gold.groups', 'batch_size': 128, 'group_size': 8}
  config.reward = {'name': 'probable', 'scale': 1.0}
  config.algorithm = {
      'name': 'dr_grpo', 'clip_low': 0.2, 'clip_high': 0.2, 'length': 1,
      'kl': {'name': 'kl_in_loss', 'coef': KL_COEF},
  }
  config.evals.verifier = {
      'name': 'gold.verifier_quality', 'every': config.evals.gold.every, 'bar': BAR, 'scale': 1.0,
      'best_of': 8,
  }
  config.log.headline = 'eval/verifier/right'
  return config


def claim() -> Claim:
  """The mechanism off is a verifier that is too sure; one that is not sure enough is beside it."""
  of = lambda scale: {'reward.scale': scale, 'evals.verifier.scale': scale}
  calibration = final('eval/verifier/calibration_error', lower=True)
  return Claim(
      paper='S167',
      says='of two verifiers whose best of n are the same, a policy learns to be right more often from the '
      'better calibrated one',
      reading=final('eval/verifier/right'),
      asserts=(
          above('too sure', by=0.02), above('too sure', reading=final('eval/gold/gain')),
          above('too sure', by=0.05, reading=calibration),
      ),
      controls=(Arm('too sure', of(4.0)),),
      beside=(Arm('not sure enough', of(0.25)),),
      seeds=10,
      minutes=2.0,
  )
