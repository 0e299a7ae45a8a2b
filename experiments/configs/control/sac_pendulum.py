"""SAC swings a pendulum up.

Paper: Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905

    rlx --config=control/sac_pendulum --workdir=runs/sac_pendulum

Result: after 5,000 steps of the environment the interquartile mean of ten seeds is -173, the worst -307
(`python -m rlx.experiments.control_table`); -200 counts as solved.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = ConfigDict()
  config.seed = 0
  config.population = {'size': 1}  # seeds side by side in one program
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('main',)

  config.env = {'name': 'pendulum', 'max_steps': 200}
  config.models = {
      'policy': {'name': 'squashed_gaussian', 'hidden': (64, 64), 'activation': 'relu'},
      'critic': {
          'name': 'critics', 'num': 2, 'hidden': (64, 64), 'activation': 'relu', 'layer_norm': False,
      },
      'temperature': {'name': 'positive', 'initial': 1.0},
  }
  config.trained = ('policy', 'critic', 'temperature')
  config.slow = {'target': 'critic'}

  config.steps = 4500  # of the environment, after 500 random ones
  config.stop = ConfigDict()  # none: all steps are taken
  config.rollout = {
      'name': 'replay',
      'num_envs': 1,
      'num_steps': 1,  # of each environment a train step
      'capacity': 10_000,  # transitions
      'warmup_steps': 500,  # random ones before the first train step
      'batch_size': 256,  # for two updates
  }
  config.algorithm = {'name': 'sac', 'discount': 0.99, 'target_rate': 0.005, 'target_entropy': -1.0}
  config.updates = {'epochs': 1, 'minibatches': 2, 'microbatches': 1}
  config.optimizer = {
      'name': 'adamw',
      'learning_rate': 3e-3,
      'warmup_steps': 1,  # updates
      'decay_steps': 0,  # none
      'final_fraction': 1.0,
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
      'weight_decay': 0.0,
      'clip_norm': 1e9,  # none
  }

  config.evals = {'episodes': {'name': 'episodes', 'every': 500, 'episodes': 16, 'max_steps': 200}}
  config.checkpoint = {'every': 2500, 'keep': 2}  # steps; newest ones
  config.log = {
      'steps_per_dispatch': 250,  # in one program
      'samples': 0,  # there are no texts
      'headline': 'eval/episodes/return',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  if arg.smoke:
    config.steps, config.log.steps_per_dispatch = 4, 2
    config.rollout.update(capacity=64, warmup_steps=16, batch_size=16)
    config.evals.episodes.update(every=2, episodes=4, max_steps=20)
    config.checkpoint.every = 2
  return config
