"""Two agents with parameters of their own find the same word among eight: a game of coordination, five seeds.

    rlx --config=control/two_players --workdir=runs/two_players
    rlx --config=control/two_players:both_learn=False --workdir=runs/one_player

Each is a learner of its own in one train step. With `both_learn=False` the second stays as it began, and
the best the first can do is to say its likeliest word.

Result: both learning, what they can expect of a game is 0.999 after 300 steps, median of five seeds, the
worst 0.998; with one learning 0.125 on all five, which is chance: the other draws uniformly.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `both_learn`."""
  arg = parse_arg(arg, smoke=False, both_learn=True)
  config = ConfigDict()
  config.seed = 0
  config.population = {'size': 2 if arg.smoke else 5}
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('main',)
  config.env = {'name': 'coordination', 'num_actions': 8}
  network = {'name': 'categorical', 'hidden': (8,), 'activation': 'tanh'}
  config.models = {'first': network, 'second': network}
  config.steps = 4 if arg.smoke else 300
  config.stop = ConfigDict()  # none: all steps are taken
  config.rollout = {'name': 'two_players', 'batch_size': 64}
  learner = {
      'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1},
      'optimizer': {'name': 'adam', 'learning_rate': 0.01, 'b1': 0.9, 'b2': 0.999, 'eps': 1e-8},
      'every': 1,
  }
  algorithm = lambda name: {'name': 'reinforce_once', 'entropy_coef': 0.0, 'names': {'policy': name}}
  config.slow = ConfigDict()
  config.learners = {
      'order': ('first', 'second'),
      'shared': (),
      'first': {**learner, 'algorithm': algorithm('first'), 'trained': ('first',)},
      'second': {**learner, 'algorithm': algorithm('second'), 'trained': ('second',)},
  }
  if not arg.both_learn:
    config.learners.second.optimizer.learning_rate = 0.0
  config.evals = {'game': {'name': 'expected_payoffs', 'every': 2 if arg.smoke else 20}}
  config.checkpoint = {'every': 2 if arg.smoke else 100, 'keep': 2}
  config.log = {
      'steps_per_dispatch': 2 if arg.smoke else 20,
      'samples': 0,
      'headline': 'eval/game/first',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  return config
