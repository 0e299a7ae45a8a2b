"""Soft verification: a rule knows one wording of a right answer, a distilled verifier knows the others too.

    rlx --config=preferences/gold_soft_verifier --workdir=runs/gold_soft_verifier

Answers are eight meanings in four wordings each, half of them right. A linear verifier learns from a
teacher's verdicts on answers of the reference (the teacher is right); the chance that it gives is the reward
of GRPO. The rule pays right answers in the first wording alone. Features of wordings of a meaning are alike,
which is what a language model brings along.

Paper: https://arxiv.org/abs/2503.23829

Result: it shows. Final eval/verifier/right after 1200 train steps, median of 10 seeds (worst): 0.9528
(0.9325), 'rule' 0.7949 (0.7153), 'untaught' 0.5091 (0.4743). Claimed, and got (95 % interval over seeds):
above 'rule' by 0.02, got 0.1643 (0.1333 to 0.1942); final eval/verifier/auc: above 0.8, got 0.8698 (0.8501 to
0.8819). 64 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_soft_verifier`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.preferences import gold_superhf, gold_verifier

BAR = gold_verifier.BAR


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_verifier.get_config(arg)
  config.task = {
      'name': 'paraphrased_worlds', 'num_prompts': 64, 'num_meanings': 8, 'num_phrasings': 4, 'width': 24,
      'apart': 0.5, 'hidden': 0.5,
  }
  config.algorithm = {**gold_superhf.GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 0.1}}
  return config


def claim() -> Claim:
  """The mechanism off is the rule; a verifier that nobody taught tells what the AUC is of."""
  untaught = {'verifying.optimizer.learning_rate': 0.0}
  return Claim(
      paper='S169',
      says='a distilled verifier tells right answers in any wording, and a policy learns to be right more '
      'often from its soft rewards than from a rule that knows one wording',
      reading=final('eval/verifier/right'),
      asserts=(above('rule', by=0.02), reaches(0.8, reading=final('eval/verifier/auc'))),
      baseline=Arm('rule', {'reward': {'name': 'gold.as_worded', 'bar': BAR}}),
      controls=(Arm('untaught', untaught),),
      seeds=10,
      minutes=2.0,
  )
