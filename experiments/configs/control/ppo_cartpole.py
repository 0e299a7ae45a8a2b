"""PPO balances a pole.

Paper: Schulman et al., 2017, https://arxiv.org/abs/1707.06347

    rlx --config=control/ppo_cartpole --workdir=runs/ppo_cartpole

Result: after 204,800 steps of the environment ten seeds return 500 of 500, the worst 500
(`python -m rlx.experiments.control_table`).
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

  config.env = {'name': 'cartpole', 'max_steps': 500}
  config.models = {
      'policy': {'name': 'categorical', 'hidden': (64, 64), 'activation': 'tanh'},
      'value': {'name': 'state_value', 'hidden': (64, 64), 'activation': 'tanh'},
  }
  config.trained = ('policy', 'value')
  config.slow = ConfigDict()

  config.steps = 200  # 204,800 steps of the environment
  config.stop = ConfigDict()  # none: all steps are taken
  config.rollout = {'name': 'unroll', 'num_envs': 8, 'num_steps': 128}
  config.algorithm = {
      'name': 'control.ppo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_coef': 0.01,
      'value_coef': 0.5,
      'value_clip': 10.0,  # in units of returns, which reach 100
      'discount': 0.99,
      'lambda_': 0.95,
  }
  config.updates = {'epochs': 4, 'minibatches': 4, 'microbatches': 1}
  config.optimizer = {
      'name': 'adamw',
      'learning_rate': 1e-3,
      'warmup_steps': 1,  # updates
      'decay_steps': 3200,  # updates
      'final_fraction': 0.1,
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-5,
      'weight_decay': 0.0,
      'clip_norm': 0.5,
  }

  config.evals = {'episodes': {'name': 'episodes', 'every': 20, 'episodes': 32, 'max_steps': 500}}
  config.checkpoint = {'every': 100, 'keep': 2}  # steps; newest ones
  config.log = {
      'steps_per_dispatch': 20,  # in one program
      'samples': 0,  # there are no texts
      'headline': 'eval/episodes/return',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  if arg.smoke:
    config.steps, config.log.steps_per_dispatch = 4, 2
    config.rollout.update(num_envs=8, num_steps=8)
    config.evals.episodes.update(every=2, episodes=4, max_steps=20)
    config.checkpoint.every = 2
  return config
