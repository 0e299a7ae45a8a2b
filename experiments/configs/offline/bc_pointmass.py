"""Behaviour cloning of mixed data: a mass that is pushed to a goal, or just about.

Two thirds of the streams are of random actions, one third of a noisy controller.

Paper: Pomerleau, 1989, ALVINN, in Advances in Neural Information Processing Systems 1

    rlx --config=offline/bc_pointmass --workdir=runs/bc_pointmass

Result: after 2,000 updates the interquartile mean of ten seeds returns -178.3, the worst -207.3: a score
of 1, where random actions have 0 and a controller 100 (`python -m rlx.experiments.control_table`).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg

GOAL = (0.7, 0.7)


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = ConfigDict()
  config.seed = 0
  config.population = {'size': 1}  # seeds side by side in one program
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('main',)

  config.env = {
      'name': 'pointmass',
      'max_steps': 100,
      'friction': 0.5,
      'start': (-0.7, -0.7),
      'start_radius': 0.2,
      'goal': GOAL,
      'obstacles': (),
  }
  config.models = {
      'policy': {'name': 'gaussian', 'hidden': (32, 32), 'activation': 'relu', 'initial_log_std': -1.0},
  }
  config.trained = ('policy',)
  config.slow = ConfigDict()

  config.data = {  # 6000 transitions
      'name': 'behaviours.steered',
      'goal': GOAL,
      'gain': 0.8,
      'damping': 0.8,
      'noise': 0.5,
      'random_share': 0.67,
      'num_envs': 30,
      'num_steps': 200,
      'discount': 0.97,
      'seed': 0,
  }
  config.steps = 2000
  config.stop = ConfigDict()  # none: all steps are taken
  config.rollout = {'name': 'offline', 'batch_size': 128}
  config.algorithm = {'name': 'bc'}
  config.updates = {'epochs': 1, 'minibatches': 1, 'microbatches': 1}
  config.optimizer = {
      'name': 'adamw',
      'learning_rate': 1e-3,
      'warmup_steps': 1,  # updates
      'decay_steps': 0,  # none
      'final_fraction': 1.0,
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
      'weight_decay': 0.0,
      'clip_norm': 1e9,  # none
  }

  config.evals = {'episodes': {'name': 'episodes', 'every': 500, 'episodes': 16, 'max_steps': 100}}
  config.checkpoint = {'every': 1000, 'keep': 2}  # steps; newest ones
  config.log = {
      'steps_per_dispatch': 250,  # in one program
      'samples': 0,  # there are no texts
      'headline': 'eval/episodes/return',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  if arg.smoke:
    config.steps, config.log.steps_per_dispatch = 4, 2
    config.data.update(num_envs=3, num_steps=10)
    config.rollout.update(batch_size=16)
    config.evals.episodes.update(every=2, episodes=4, max_steps=20)
    config.checkpoint.every = 2
  return config
