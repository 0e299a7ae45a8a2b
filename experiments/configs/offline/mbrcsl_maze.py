"""MBRCSL in a maze: models of the world and of who was there dream, and the best dreams are learnt from.

Paper: Zhou et al., 2023, https://arxiv.org/abs/2310.19308

    rlx --config=offline/mbrcsl_maze --workdir=runs/mbrcsl_maze
    rlx --config=offline/mbrcsl_maze:alone --workdir=runs/rcsl_maze    # conditioned on the records' returns

Records are of 16 moves that begin in S or in M, each on the way to some cell. From M some arrive in G; nobody
who began in S did, for it is 20 moves away. Who is examined begins in S and has 50.

Result: it shows. Final eval/episodes/return after 8000 train steps, median of 5 seeds (worst): 1 (1),
'conditioning alone' 0 (0), 'no dream is known to pay' 0 (0). Claimed, and got (95 % interval over seeds):
above 'conditioning alone' by 0.2, got 1 (0.9896 to 1). 479 CPU-s on 1 cores of a CPU;
`rlx reproduce offline/mbrcsl_maze`.

Tried before on a grid, from random moves: dreams left the middles of the cells, of which alone there were
records, and what they promised was wrong. And with rewards left to the likelihood (`reward_coef` 0) the model
takes the three in a thousand that are not 0 for noise: no dream of 2,000 promised more than 0.5.

Of the dreams that pay, a fifth of those from S would arrive; those that promise most are not more often
right, and say more than there is to earn. So it does not do to keep few: with a twentieth one trial seed of
three came to 1 and two to 0; with a half, and with all, three came to 1, for a return of 1 is asked for in
the end. Conditioning alone came to 1, 0.16 and 0 on these: what it does where nobody earned is luck.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent

LAYOUT, MAZE_STEPS, EXAM_STEPS = 'u', 16, 50
STEPS = 4000  # of each stage


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `alone` (no dreams, and as many steps in all)."""
  arg = parse_arg(arg, smoke=False, alone=False)
  config = parent.get_config('smoke' if arg.smoke else '')
  maze = {'name': 'maze', 'layout': LAYOUT, 'starts': 'SM', 'goals': 'G', 'max_steps': MAZE_STEPS}
  config.env = {'name': 'commanded', 'target': 1.0, 'env': maze}  # return
  shape = {'hidden': (128, 128), 'activation': 'relu'}
  config.models = {'policy': {'name': 'gaussian', **shape, 'initial_log_std': -1.0}}
  config.data = {
      'name': 'behaviours.wandering', 'layout': LAYOUT, 'noise': 0.5, 'num_envs': 1000, 'num_steps': 160,
      'discount': 1.0, 'seed': 0,
  }
  config.algorithm = {'name': 'rcsl'}
  exam = {**config.env.to_dict(), 'env': {**maze, 'starts': 'S', 'max_steps': EXAM_STEPS}}
  config.evals.episodes.update(env=exam, max_steps=EXAM_STEPS)
  if arg.smoke:
    config.data.update(num_envs=10, num_steps=20)
  else:
    config.steps, config.rollout.batch_size, config.evals.episodes.episodes = STEPS, 512, 64
  if arg.alone:
    config.steps *= 2
  else:
    _dream(config, shape)
  return config


def _dream(config: ConfigDict, shape: dict) -> None:
  """The stage before, and its dreams as the rows of this one."""
  config.stages = ('dreamer', 'main')
  config.models.behaviour = config.models.policy.copy_and_resolve_references()
  config.models.dynamics = {'name': 'dynamics.ensemble', 'num': 5, **shape}
  config.dreamer = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'data': config.data.to_dict(),
      'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'mbrcsl', 'reward_coef': 500.0},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
      'trained': ('behaviour', 'dynamics'),
      'slow': {'policy': 'policy'},  # as it begins; evaluations play it
  }
  config.slow = {'behaviour': 'behaviour', 'dynamics': 'dynamics'}
  config.rollout = {
      'name': 'best_dreams',
      'num': 2000,
      'max_steps': EXAM_STEPS,
      'kept_share': 0.5,
      'batch_size': config.rollout.batch_size,
  }


def claim() -> Claim:
  """Beside conditioning on the returns of the records, with as many updates; with rewards that are noise."""
  return Claim(
      paper='S175',
      says='dreams that put episodes together earn returns that nobody in the data earned',
      reading=final('eval/episodes/return'),
      asserts=(above('conditioning alone', by=0.2),),
      baseline=Arm('conditioning alone', config='offline/mbrcsl_maze:alone'),
      controls=(Arm('no dream is known to pay', {'dreamer.algorithm.reward_coef': 0.0}),),
      minutes=9.0,
  )
