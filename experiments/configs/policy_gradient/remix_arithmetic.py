"""ReMix on two-digit addition: four updates on a fresh batch and the last three, then on policy from there.

    rlx --config=policy_gradient/remix_arithmetic --workdir=runs/remix

Paper: https://arxiv.org/abs/2507.06892. The stage `main` is its reincarnation: `slow.reference` is copied
from the policy as that stage gets it, and no old row is left.

Result: it shows in part. Mean of the last 10 eval/held_out/accuracy after 500 train steps, median of 5 seeds
(worst): 0.545 (0.008667), 'GRPO, four epochs' 0.063 (0.05633), 'GRPO, one epoch' 0.673 (0.1513). Claimed, and
got (95 % interval over seeds): above 'GRPO, four epochs', got 0.1769 (0.02978 to 0.4264); above 'GRPO, one
epoch', got -0.1469 (-0.2911 to -0.1062), the reverse holds. 582 CPU-s on 2 cores of a CPU;
`rlx reproduce policy_gradient/remix_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.quickstart.arithmetic import GRPO

PAST_STEPS = 3


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart)."""
  config = arithmetic.get_config(arg, steps=400)
  arg = parse_arg(arg, smoke=False, small=False)
  config.population.size = 3
  config.stages = ('sft', 'remix', 'main')
  config.slow = {'reference': 'policy'}
  config.algorithm.kl = {'name': 'kl_in_loss', 'coef': 0.001}

  per_dispatch = config.log.steps_per_dispatch
  steps, fresh = (4, 16) if arg.smoke else (config.steps // 2 // per_dispatch * per_dispatch, 128)
  config.remix = {
      'steps': steps,
      'stop': config.stop,
      'trained': config.trained,
      'slow': config.slow,
      'task': config.task,
      'decoding': {**config.decoding},
      'rollout': {
          'name': 'reusing',
          'fresh': {
              'name': 'prompts.completions',
              'batch_size': fresh,
              'group_size': 8,
              'num_slots': 0,
          },
          'past_steps': PAST_STEPS,
          'batch_size': (1 + PAST_STEPS) * fresh,  # all rows, those that come back too
      },
      'reward': config.reward,
      'algorithm': {
          'name': 'remix',
          'clip': 0.2,
          'kl': {'name': 'kl_in_loss', 'coef': 0.001},
          'base_share': {
              'name': 'controllers.schedules.linear',
              'first': 1.0,
              'last': 0.5,
              'num_steps': steps,
          },
      },
      'updates': {'epochs': 1, 'minibatches': 1 + PAST_STEPS, 'microbatches': 1},
      'optimizer': {**config.optimizer, 'decay_steps': 0},
  }
  return config


def claim() -> Claim:
  """Beside as many updates on the fresh rows alone, without the old ones, and beside one update."""
  fresh = {'name': 'prompts.completions', 'batch_size': 128, 'group_size': 8, 'num_slots': 0}
  updates = lambda epochs: {'epochs': epochs, 'minibatches': 1, 'microbatches': 1}
  held = {**GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 0.001}}
  grpo = {'remix.rollout': fresh, 'remix.algorithm': held}
  return Claim(
      paper='S046',
      says='rows of the past and two policies that hold the update reach more than GRPO, at equal rollouts',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('GRPO, four epochs'), above('GRPO, one epoch')),
      baseline=Arm('GRPO, four epochs', {**grpo, 'remix.updates': updates(1 + PAST_STEPS)}),
      beside=(Arm('GRPO, one epoch', {**grpo, 'remix.updates': updates(1)}),),
      minutes=8.0,
  )
