"""Cooper: a reward model that can be hacked, frozen, or learning from verified rows of the policy it judges.

    rlx --config=preferences/gold_cooper --workdir=runs/gold_cooper

The reward model is linear and learns from 768 comparisons of the reference's answers first. Of the feature
that is good up to a point it knows the good side alone. In the main stage it goes on learning beside the
policy: each answer that a rule calls right (a true reward above 1) beside a wrong one to the same prompt. The
policy sees the reward model alone, with little to hold it.

The gap is smaller than with the frozen one and not small: 1.1 against 1.8 in the median, and growing. What
the policy has won it keeps, where with the frozen one the gain is 0.8 after 120 steps of the main stage and
falls from then on. The bound of 0.3 was written down before. Ten seeds left it open (0.11 to 0.68),
and twenty were run then.

Paper: https://arxiv.org/abs/2508.05613

Result: it shows. Final eval/gold/gain after 1200 train steps, median of 20 seeds (worst): 1.005 (0.8327),
'frozen judge' 0.3005 (-0.1356). Claimed, and got (95 % interval over seeds): above 'frozen judge' by 0.1, got
0.7386 (0.611 to 0.8396); final eval/proxy/gap: below 'frozen judge' by 0.3, got 0.5434 (0.3712 to 0.6725). 53
CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_cooper`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_superhf

KL_COEF = 0.1


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_superhf.get_config(arg)
  learnt = lambda: {'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict(), 'every': 1}
  policy = {
      'algorithm': {**gold_superhf.GRPO, 'kl': {'name': 'kl_in_loss', 'coef': KL_COEF}},
      'trained': ('policy',), **learnt(),
  }
  judge = {'algorithm': config.rewarding.algorithm.to_dict(), 'trained': ('judge',), **learnt()}
  config.slow = {'world': 'world', 'reference': 'policy'}
  config.rollout = {'name': 'each', 'policy': config.rollout.to_dict()}
  config.reward = {
      'name': 'in_turn',
      'first': {'name': 'gold.corrupted_copies', 'bar': 1.0, 'of': 'policy', 'to': 'judge'},
      'second': {'name': 'by_name', 'policy': {'name': 'learned'}},
  }
  for name in ('algorithm', 'updates', 'optimizer', 'trained'):
    del config[name]
  config.learners = {'order': ('policy', 'judge'), 'shared': (), 'policy': policy, 'judge': judge}
  config.evals.proxy = {'name': 'gold.proxy', 'every': config.evals.gold.every}
  return config


def claim() -> Claim:
  """The mechanism off is a reward model that learns nothing more."""
  gap = final('eval/proxy/gap', lower=True)
  return Claim(
      paper='S006',
      says='a frozen reward model is hacked: what it sees leaves the true reward behind; one that learns '
      'beside the policy from verified rows keeps the gap small, and the policy gains more',
      reading=final('eval/gold/gain'),
      asserts=(above('frozen judge', by=0.1), above('frozen judge', by=0.3, reading=gap)),
      controls=(Arm('frozen judge', {'learners.judge.optimizer.learning_rate': 0.0}),),
      seeds=20,
      minutes=2.0,
  )
