"""SWE-RM: of two verifiers that put answers in the same order, the worse calibrated one is the worse reward.

    rlx --config=preferences/gold_verifier --workdir=runs/gold_verifier

A linear verifier learns from verdicts of a rule on answers of the reference, half of which are right. Its
chances are the reward of a policy gradient (Dr. GRPO). Another one says the same log-odds four times as
large: the order of answers, the best of n and the AUC are the same, up to rounding, and it is too sure.

It matters where the verifier cannot know all and the policy goes far. Of answers that it takes for right a
verifier that is too sure says the same, so that the policy spreads over them; one that is calibrated goes on
telling them apart. On ten other seeds the policy was right in 93.0 and 91.6 % of its answers with a KL
coefficient of 0.01, in 89.7 and 88.2 % with 0.03, and with 0.1 in 80.6 and 81.2 %: there the larger reward
goes further. With twice as much hidden from the verifier it makes no difference at 0.03, and a loss at 0.1.
With half of it and 0.1, as claimed at first with a bound of 0.02, 87 % were right with either. That the
calibration error differs is how the arms were made.

Paper: https://arxiv.org/abs/2512.21919

Result: it shows. Final eval/verifier/right after 1200 train steps, median of 20 seeds (worst): 0.9481
(0.9095), 'too sure' 0.9258 (0.876), 'not sure enough' 0.9382 (0.8814). Claimed, and got (95 % interval over
seeds): above 'too sure' by 0.005, got 0.01935 (0.01624 to 0.02403); final eval/gold/gain: above 'too sure',
got 0.09947 (0.08257 to 0.117); final eval/verifier/calibration_error: below 'too sure' by 0.05, got 0.1387
(0.1325 to 0.1472). 92 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_verifier`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo

BAR = 0.0
KL_COEF = 0.01


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.seed = 200  # the first ones had been looked at
  config.task.update(hump=0.0, hidden=1.0)
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
          above('too sure', by=0.005), above('too sure', reading=final('eval/gold/gain')),
          above('too sure', by=0.05, reading=calibration),
      ),
      controls=(Arm('too sure', of(4.0)),),
      beside=(Arm('not sure enough', of(0.25)),),
      seeds=20,
      minutes=3.0,
  )
