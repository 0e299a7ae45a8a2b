"""A reward model that learns beside the policy: two-digit addition, five seeds.

    rlx --config=stages/judge_arithmetic --workdir=runs/judge
    rlx --config=stages/judge_arithmetic:judge_learns=False --workdir=runs/judge_fixed

The policy is rewarded by a reward model alone. The reward model has seen 200 batches of pairs before
(`label`); in the main stage it goes on learning, from a right and a wrong answer of each group that has
both: two learners in one train step. With `judge_learns=False` it stays as it was, and everything else is
the same.

Paper: Cooper, https://arxiv.org/abs/2508.05613. There the negative answers are the policy's and the
positive ones are rewritten; here both are the policy's own.

Result: it does not work, with either judge. After 340 steps of SFT and labelling, held-out accuracy of five
seeds is 28.0 % (worst 14.4 %); after 400 steps it is 0.0 % (best seed 0.9 %) with the judge that learns, and
0.2 % (0.7 %) with the one that does not. The judge tells the right answer of a pair in 0.5 of them, which is
chance: a decoder of this size has not learnt to check sums from 200 batches of pairs. Within 40 steps the
policy says the one thing that the judge likes; then no group holds a right answer, so there are no pairs, and
the judge that could learn has nothing to learn from. `judge_sorting` is easier to check than to do, and takes
its better answers from the task.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `judge_learns`."""
  arg = parse_arg(arg, smoke=False, judge_learns=True)
  config = arithmetic.get_config('smoke' if arg.smoke else '', steps=400)
  config.population.size = 2 if arg.smoke else 5
  config.rollout.batch_size = 16 if arg.smoke else 256
  config.stages = ('sft', 'label', 'main')
  config.models.judge = {'name': 'reward_head'}
  completions, verifier = config.rollout.to_dict(), config.reward.to_dict()
  updates, optimizer = config.updates.to_dict(), config.optimizer.to_dict()
  pairs_optimizer = {**optimizer, 'learning_rate': 1e-3, 'decay_steps': 0}

  config.label = {
      'steps': 4 if arg.smoke else 200,
      'stop': ConfigDict(),  # none
      'trained': ('judge',),
      'slow': {'policy': 'policy'},
      'decoding': {**config.decoding},
      'rollout': {'name': 'paired', 'rollout': completions, 'reward': verifier},
      'algorithm': {'name': 'bradley_terry'},
      'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1},
      'optimizer': pairs_optimizer,
  }
  judged = {'name': 'by_name', 'policy': {'name': 'learned'}}
  learner = {'algorithm': config.algorithm.to_dict(), 'updates': updates, 'optimizer': optimizer}
  if arg.judge_learns:
    for name in ('algorithm', 'updates', 'optimizer', 'trained'):
      del config[name]
    config.rollout = {'name': 'each', 'policy': completions}
    config.reward = {
        'name': 'in_turn',
        'first': {'name': 'pairs', 'reward': verifier, 'of': 'policy', 'to': 'judge'},
        'second': judged,
    }
    config.learners = {
        'order': ('policy', 'judge'),
        'shared': (),
        'policy': {**learner, 'trained': ('policy',), 'every': 1},
        'judge': {
            'algorithm': {'name': 'bradley_terry'},
            'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1},
            'optimizer': pairs_optimizer,
            'trained': ('judge',),
            'every': 1,
        },
    }
    config.slow = ConfigDict()
  else:
    config.reward = {'name': 'learned'}
    config.slow = {'judge': 'judge'}
  return config
