"""MetaRM, of Secrets of RLHF II: labels are learnt where a reward model tells a later policy's answers apart.

    rlx --config=preferences/gold_meta_rm --workdir=runs/gold_meta_rm

A policy learns by DPO from 768 labels, of which a fifth were exchanged (`moving`). A reward model with a
layer between learns from the same labels. Before each update its parameters go up the slope by which it tells
two samples of that policy apart, whichever is better, and the labels' gradient is taken there
(`algorithms/meta_step.py`). Asked are pairs of the policy's answers: how far the better one is ahead, in
deviations of the rewards.

Before anything was claimed, it was tried in ten other worlds. In five of them the margin rose from 0.08 to
0.24 at a rate of 5, to 0.61 at 20; of a linear reward model it fell a little (0.93 to 0.88 at a rate of 1).
In the ten worlds of the claim it does not rise.

Tried since, in twelve other worlds, where the margin came to 0.57 with the step and to 0.16 without (right in
0.593 and 0.519 of the pairs): the policy has moved so far by its 600 steps that chance is near, and the
reward model has learnt its labels by heart. With a policy of 160 steps, and 1040 of the reward model, it was
0.73 (0.661) beside 0.44 (0.605); but 20 steps of the plain one came to 0.86. At a tenth of the learning rate
it is the other way round: 0.94 (0.711) without the step, 0.90 (0.691) at a rate of 4 and 0.73 (0.651) at 20,
after 600 steps. So the step does what stopping in time does, and no more.

The contrastive term of the paper (`contrasted`) was tried beside, around the reward model with a layer
between, without the vote: right in 0.708 of the pairs without it, and in 0.706 to 0.725 with weights of 0.3
to 10, in no order; with the vote of `gold_votes` 0.806 with and without. It does not show, and is claimed
nowhere.

Paper: https://arxiv.org/abs/2401.06080

Result: it does not show. Final eval/moved/margin after 1200 train steps, median of 10 seeds (worst): 0.3981
(0.0683), 'no meta step' 0.4246 (-0.0001969), 'smoothing' 0.2744 (-0.3242). Claimed, and got (95 % interval
over seeds): above 'no meta step' by 0.1, got 0.07466 (-0.1573 to 0.2152), the run fails it; final
eval/moved/right: above 'no meta step', got -0.001662 (-0.05644 to 0.04879), the run fails it. 73 CPU-s on 2
cores of a CPU; `rlx reproduce preferences/gold_meta_rm`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.preferences import gold_dpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task.hump = 0.0
  config.stages = ('moving', 'main')
  config.models.judge = {'name': 'gold.hidden', 'size': 64}
  config.rollout.update(sharpness=1000.0, flips=0.2)
  config.moving = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('policy',),
      'slow': {'world': 'world', 'reference': 'policy'},
      'rollout': config.rollout.to_dict(),
      'algorithm': {**gold_dpo.DPO},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.trained = ('judge',)
  config.slow = {'world': 'world', 'policy': 'policy'}
  config.takes = ('comparisons', 'round_step')  # the same labels
  rows = config.rollout.batch_size
  config.rollout = {
      'name': 'pairs.with_samples',
      'rollout': config.rollout.to_dict(),
      'samples': {'name': 'gold.groups', 'batch_size': rows, 'group_size': 2},
  }
  config.algorithm = {
      'name': 'meta_step',
      'rate': 20.0,  # of the step up
      'among': rows // 2,  # comparisons of one such step: the batch
      'parent': {'name': 'bradley_terry', 'smoothing': 0.0},
  }
  every = config.evals.gold.every
  config.evals = {
      'judge': {'name': 'gold.judged', 'every': every}, 'moved': {'name': 'gold.judged_of', 'every': every},
  }
  config.log.headline = 'eval/moved/margin'
  return config


def claim() -> Claim:
  """The mechanism off is a step of no length; what else goes easy on wrong labels is beside it."""
  return Claim(
      paper='S111',
      says='a reward model that learns its labels behind a meta step puts the better one of two answers of a '
      'later policy further ahead, and is right about them more often',
      reading=final('eval/moved/margin'),
      asserts=(
          above('no meta step', by=0.1),
          above('no meta step', reading=final('eval/moved/right')),
      ),
      controls=(Arm('no meta step', {'algorithm.rate': 0.0}),),
      beside=(Arm('smoothing', {'algorithm.rate': 0.0, 'algorithm.parent.smoothing': 0.2}),),
      seeds=10,
      minutes=4.0,
  )
