"""Secrets of RLHF II: reward models vote on how strong a label is, and the weakest labels change sides.

    rlx --config=preferences/gold_votes --workdir=runs/gold_votes

A fifth of 768 labels, which would else be right, were exchanged. Eight linear reward models learn from all
of them, each from its own half of every batch; then one learns with the weakest tenth of each batch the other
way round. The paper's meta step is in `gold_meta_rm`, and so is what came of its contrastive term: nothing.

Before anything was claimed, shares of 0.1, 0.2 and 0.3, with 192 and 768 labels, were tried outside of this
config on ten other worlds: 0.1 and 768 were best.

Paper: https://arxiv.org/abs/2401.06080

Result: it shows. Final eval/judge/right after 1200 train steps, median of 10 seeds (worst): 0.8172 (0.7911),
'all labels' 0.8053 (0.7807), 'a vote by chance' 0.6897 (0.6382), 'no wrong labels' 0.8483 (0.8132). Claimed,
and got (95 % interval over seeds): above 'all labels', got 0.01222 (0.008084 to 0.0162); final eval/vote/auc:
above 0.8, got 0.8988 (0.8758 to 0.9139). 80 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_votes`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.preferences import gold_dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task.hump = 0.0
  config.stages = ('voting', 'main')
  config.models.update({'voters': {'name': 'gold.voters', 'num': 8}, 'judge': {'name': 'gold.linear'}})
  config.rollout.update(sharpness=1000.0, flips=0.2)
  config.slow = {'world': 'world', 'policy': 'policy', 'voters': 'voters'}
  config.voting = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('voters',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'bradley_terry.votes', 'share': 0.5},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.trained = ('judge',)
  config.takes = ('comparisons', 'round_step')  # the same labels
  config.rollout = {'name': 'by_vote', 'flips': 0.1, 'rollout': config.rollout.to_dict()}
  config.algorithm = {'name': 'bradley_terry'}
  every = config.evals.gold.every
  config.evals = {
      'judge': {'name': 'gold.judged', 'every': every}, 'vote': {'name': 'gold.voted', 'every': every},
  }
  config.log.headline = 'eval/judge/right'
  return config


def claim() -> Claim:
  """The mechanism off is a vote of models that learnt nothing; no wrong labels at all are beside it."""
  clean = {'rollout.rollout.flips': 0.0, 'voting.rollout.flips': 0.0, 'rollout.flips': 0.0}
  return Claim(
      paper='S111',
      says='the strength that reward models vote tells exchanged labels, and a reward model that learns with '
      'the weakest the other way round is right more often',
      reading=final('eval/judge/right'),
      asserts=(above('all labels'), reaches(0.8, reading=final('eval/vote/auc'))),
      baseline=Arm('all labels', {'rollout.flips': 0.0}),
      controls=(Arm('a vote by chance', {'voting.optimizer.learning_rate': 0.0}),),
      beside=(Arm('no wrong labels', clean),),
      seeds=10,
      minutes=2.0,
  )
