"""Two agents with parameters of their own find the same word among eight: a game of coordination, five seeds.

    rlx --config=control/two_players --workdir=runs/two_players
    rlx --config=control/two_players:both_learn=False --workdir=runs/one_player

Each is a learner of its own in one train step. With `both_learn=False` the second stays as it began, and
the best the first can do is to say its likeliest word.

Result: it shows. Final eval/game/first after 300 train steps, median of 5 seeds (worst): 0.9986 (0.9985),
'only one learns' 0.125 (0.125). Claimed, and got (95 % interval over seeds): the worst seed above 0.95, got
0.9985 (0.9985 to 0.9986); above 'only one learns' by 0.5, got 0.8736 (0.8735 to 0.8737). 7 CPU-s on 2 cores
of a CPU; `rlx reproduce control/two_players`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches


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


def claim() -> Claim:
  """Both have to learn; one alone stays at chance."""
  return Claim(
      paper='',
      says='two learners with parameters of their own find the same word among eight; one alone cannot',
      reading=final('eval/game/first'),
      asserts=(reaches(0.95, of='worst'), above('only one learns', by=0.5)),
      controls=(Arm('only one learns', {'learners.second.optimizer.learning_rate': 0.0}),),
      minutes=0.5,
  )
