"""WSRL: conservative values from records of a mediocre driver, then SAC that leaves the records behind.

Paper: Zhou et al., 2024, https://arxiv.org/abs/2412.07762

    rlx --config=offline2online/wsrl_pointmass --workdir=runs/wsrl_pointmass

Result: it shows. Mean of the last 20 eval/episodes/return after 10,000 train steps, median of 5 seeds
(worst): -35.52 (-40.62), 'from scratch' -58.26 (-63.29). Claimed, and got (95 % interval over seeds): above
'from scratch' by 5, got 19.07 (10.49 to 24.69). 733 CPU-s on 2 cores of a CPU;
`rlx reproduce offline2online/wsrl_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean

DISCOUNT = 0.97
GOAL = (0.7, 0.7)


def records(**changes) -> dict:
  """What a slow driver did from the start to the goal, 200 episodes."""
  driver = {
      'name': 'behaviours.steered',
      'goal': GOAL,
      'gain': 0.6,  # actions per m
      'damping': 1.0,  # actions per m / s
      'noise': 0.3,
      'random_share': 0.2,  # of the episodes
      'num_envs': 200,
      'num_steps': 100,
      'discount': DISCOUNT,
      'seed': 0,
  }
  return {**driver, **changes}


def adam(learning_rate: float) -> dict:
  return {
      'name': 'adamw',
      'learning_rate': learning_rate,
      'warmup_steps': 1,  # updates
      'decay_steps': 0,  # none
      'final_fraction': 1.0,
      'b1': 0.9,
      'b2': 0.999,
      'eps': 1e-8,
      'weight_decay': 0.0,
      'clip_norm': 1e9,  # none
  }


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (4 critics, less of CQL: minutes)."""
  arg = parse_arg(arg, smoke=False, small=False)
  config = ConfigDict()
  config.seed = 0
  config.population = {'size': 1}  # seeds side by side in one program
  config.mesh = {'data': -1, 'fsdp': 1, 'tensor': 1}  # -1: all devices
  config.stages = ('offline', 'main')

  config.env = {
      'name': 'pointmass', 'max_steps': 100, 'friction': 0.5, 'start': (-0.7, -0.7), 'start_radius': 0.1,
      'goal': GOAL, 'obstacles': (),
  }
  config.models = {
      'policy': {'name': 'squashed_gaussian', 'hidden': (64, 64), 'activation': 'relu'},
      'critic': {
          'name': 'critics', 'num': 10, 'hidden': (64, 64), 'activation': 'relu', 'layer_norm': True,
      },
      'temperature': {'name': 'positive', 'initial': 0.1},
  }
  trained = ('policy', 'critic', 'temperature')
  sac = {'name': 'sac', 'discount': DISCOUNT, 'target_rate': 0.005, 'target_entropy': -1.0}

  config.offline = {
      'steps': 5000,  # updates
      'stop': ConfigDict(),  # none
      'data': records(),
      'rollout': {'name': 'offline', 'batch_size': 256},
      'algorithm': {'name': 'cql', 'parent': dict(sac), 'conservatism': 5.0, 'num_actions': 10},
      'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1},
      'optimizer': adam(3e-4),
      'trained': trained,
      'slow': {'target': 'critic'},
  }

  config.steps = 5000  # of the environment
  config.stop = ConfigDict()  # none: all steps are taken
  config.rollout = {
      'name': 'warm_replay',
      'num_envs': 1,
      'num_steps': 1,  # of each environment a train step
      'capacity': 10_000,  # transitions
      'warmup_steps': 1000,  # of the policy handed on, before the first update (the authors': 5000)
      'batch_size': 1024,  # for all updates of a step
  }
  config.algorithm = sac
  config.updates = {'epochs': 1, 'minibatches': 4, 'microbatches': 1}  # the authors: 4 updates a step
  config.optimizer = adam(3e-4)
  config.trained = trained
  config.slow = {'target': 'critic'}

  config.evals = {'episodes': {'name': 'episodes', 'every': 250, 'episodes': 32, 'max_steps': 100}}
  config.checkpoint = {'every': 2500, 'keep': 2}  # steps; newest ones
  config.log = {
      'steps_per_dispatch': 250,  # in one program
      'samples': 0,  # there are no texts
      'headline': 'eval/episodes/return',
      'writers': ('tensorboard',),
      'stuck_seconds': 900.0,  # until it is said where a step hangs
  }
  if arg.small:  # of the above, 2,000 of the 5,000 updates of CQL took 16 CPU-minutes for five seeds
    config.models.critic.num = 4
    config.offline.rollout.batch_size = 64
    config.offline.algorithm.num_actions = 4
  if arg.smoke:
    smoke(config)
  return config


def smoke(config: ConfigDict) -> None:
  """Seconds: few steps of little."""
  config.steps, config.log.steps_per_dispatch = 4, 2
  config.env.get('inner', config.env).max_steps = 10
  config.evals.episodes.update(every=2, episodes=4, max_steps=10)
  config.checkpoint.every = 2
  stages = [config] + [config[name] for name in config.stages if name != 'main']
  for stage in stages:
    stage.steps = 4
    if 'data' in stage:
      stage.data.update(num_envs=4, num_steps=10)
    draws = stage.rollout.get('online', stage.rollout)
    draws.batch_size = 16
    if 'warmup_steps' in draws:
      draws.update(capacity=64, warmup_steps=16)


def claim() -> Claim:
  """Without what was learnt offline: the offline stage leaves the networks as they began."""
  return Claim(
      paper='S083',
      argument='small',
      says='a policy from records learns online in fewer steps than one from scratch, without the records',
      reading=mean('eval/episodes/return', last=20),
      asserts=(above('from scratch', by=5.0),),
      controls=(Arm('from scratch', {'offline.optimizer.learning_rate': 0.0}),),
      minutes=10.0,
  )
