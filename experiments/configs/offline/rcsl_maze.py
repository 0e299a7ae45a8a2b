"""RCSL in a maze: the way from S to G is asked for, from random moves that began in S.

Paper: Brandfonbrener et al., 2022, https://arxiv.org/abs/2206.01079

    rlx --config=offline/rcsl_maze --workdir=runs/rcsl_maze

Result: it shows. Final eval/episodes/return after 4000 train steps, median of 10 seeds (worst): 1 (1),
'cloning' 0 (0), 'no return is asked for' 0 (0). Claimed, and got (95 % interval over seeds): above 'cloning'
by 0.5, got 1 (1 to 1); above 'no return is asked for' by 0.5, got 1 (1 to 1). 60 CPU-s on 1 cores of a CPU;
`rlx reproduce offline/rcsl_maze`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `whole` (many records that go all of the way)."""
  arg = parse_arg(arg, smoke=False, whole=False)
  config = parent.get_config('smoke' if arg.smoke else '')
  config.env = {
      'name': 'commanded',
      'target': 1.0,  # return
      'env': {
          'name': 'grid_maze',
          'layout': 'u',
          'starts': 'S',
          'goals': 'G',
          'max_steps': 50,
      },
  }
  config.models = {'policy': {'name': 'categorical', 'hidden': (64, 64), 'activation': 'relu'}}
  config.data = {'name': 'random', 'num_envs': 100, 'num_steps': 100, 'discount': 1.0, 'seed': 0}
  config.algorithm = {'name': 'rcsl'}
  if arg.whole and not arg.smoke:
    config.data = {'name': 'random', 'num_envs': 4000, 'num_steps': 100, 'discount': 1.0, 'seed': 0}
    config.steps, config.rollout.batch_size = 4000, 512
  return config


def claim() -> Claim:
  """A wanted return of 0 asks for nothing; cloning learns from all records alike."""
  return Claim(
      paper='',
      says='a return that is asked for is earned, where records of random moves have it now and then',
      argument='whole',
      reading=final('eval/episodes/return'),
      asserts=(above('cloning', by=0.5), above('no return is asked for', by=0.5)),
      baseline=Arm('cloning', {'algorithm.name': 'bc'}),
      controls=(Arm('no return is asked for', {'env.target': 0.0}),),
      seeds=10,
      minutes=4.0,
  )
