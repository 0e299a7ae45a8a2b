"""SPA in the corridor of `corridor_istar`: an estimator deals the outcome out to steps, and PPO is paid so.

    rlx --config=agents/corridor_spa --workdir=runs/spa

The key has to be taken before the goal opens; nothing but the end is rewarded. The estimator is a learner
beside the policy, on the same episodes, none more; in the paper it learns before.

Paper: https://arxiv.org/abs/2505.20732

Result: it does not show. Mean over the run of eval/held_out/accuracy after 70 train steps, median of 5 seeds
(worst): 0.01562 (0.007812), 'paid in the end' 0.1348 (0.05273). Claimed, and got (95 % interval over seeds):
above 'paid in the end', got -0.1335 (-0.2598 to -0.05924), the reverse holds. 217 CPU-s on 2 cores of a CPU;
`rlx reproduce agents/corridor_spa`.

An estimator that learns for 60 steps before, and is frozen then, does no better: after 60 steps of the policy
four of five trial seeds solve nothing. Behind more imitation, up to 0.3, two trial seeds that are paid in the
end come to 0.86 and 0.83 in 100 steps. With an estimator beside them both stand at 0 after 10 steps, where
what it says is noise; at a quarter of the policy's rate they come to 0.67 and 0.48. With one that has learnt
for 120 or 250 steps before and goes on, one seed comes to 0.86 and 0.67, and the other one falls to 0 within
10 steps, and its episodes then last as long as they may.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import corridor_istar

PARTS = ('algorithm', 'updates', 'optimizer')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = corridor_istar.corridor(arg)
  config.models.value = {'name': 'value_head'}
  config.models.progress = {'name': 'value_head'}
  config.algorithm = {
      'name': 'turn_ppo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'entropy_coef': 0.0,
      'value_coef': 0.5,
      'value_clip': 0.2,
      'discount': 0.99,  # from turn to turn
      'lambda_': 0.95,
  }
  config.rollout.group_size = 1  # the critic is the baseline
  policy = {name: config[name].to_dict() for name in PARTS}
  progress = {
      **policy,
      'algorithm': {'name': 'spa'},
      'optimizer': {**policy['optimizer'], 'learning_rate': 2e-3, 'decay_steps': 0},
  }
  order = ('policy', 'progress')
  config.rollout = {'name': 'for_all', 'rollout': config.rollout.to_dict(), 'learners': order}
  config.reward = {
      'name': 'by_name',
      'policy': {'name': 'of_progress', 'scale': 1.0, 'grounding': 0.0},
      'progress': {'name': 'of_world'},
  }
  config.learners = {
      'order': order,
      'shared': (),
      'policy': {**policy, 'trained': ('policy', 'value'), 'every': 1},
      'progress': {**progress, 'trained': ('progress',), 'every': 1},
  }
  for name in (*PARTS, 'trained'):
    del config[name]
  return config


def claim() -> Claim:
  """Beside PPO that is paid in the end; the estimator learns beside it all the same."""
  return Claim(
      paper='S090',
      says='steps that are paid what they have added to the outcome learn faster than the outcome at the end',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('paid in the end'),),
      controls=(Arm('paid in the end', {'reward.policy': {'name': 'of_world'}}),),
      minutes=4.0,
  )
