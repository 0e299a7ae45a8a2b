"""MBRCSL in a maze: models of the world and of random moves dream, and the best dreams are learnt from.

Paper: Zhou et al., 2023, https://arxiv.org/abs/2310.19308

    rlx --config=offline/mbrcsl_maze --workdir=runs/mbrcsl_maze

Result: it does not show. Final eval/episodes/return after 4000 train steps, median of 5 seeds (worst): 0 (0),
'conditioning alone' 0 (0), 'all dreams are kept' 0 (0). Claimed, and got (95 % interval over seeds): above
'conditioning alone' by 0.2, got 0 (0 to 0), the run fails it. 72 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/mbrcsl_maze`.

Also tried, on two trial seeds: records half of which begin near the goal. The dreams that were kept promised
0.08 on average, so that few of them can have arrived, which pays 1. In a maze that is seen as a table, with
a model that was trained for longer, the best of 20,000 dreams promised 1.4, which is more than there is to
earn.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import rcsl_maze as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of rcsl_maze."""
  config = parent.get_config(arg)
  steps = config.steps
  config.stages = ('dreamer', 'main')
  config.models.behaviour = config.models.policy.copy_and_resolve_references()
  config.models.dynamics = {'name': 'dynamics.ensemble', 'num': 5, 'hidden': (64, 64), 'activation': 'relu'}
  config.dreamer = {
      'steps': steps,
      'stop': ConfigDict(),
      'data': config.data.to_dict(),
      'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'mbrcsl'},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
      'trained': ('behaviour', 'dynamics'),
      'slow': {'policy': 'policy'},  # as it begins; evaluations play it
  }
  config.slow = {'behaviour': 'behaviour', 'dynamics': 'dynamics'}
  config.rollout = {
      'name': 'best_dreams',
      'num': 1000,
      'max_steps': 50,
      'kept_share': 0.1,
      'batch_size': config.rollout.batch_size,
  }
  return config


def claim() -> Claim:
  """Beside conditioning on the returns of the records, with as many updates; with all dreams kept."""
  return Claim(
      paper='S175',
      says='dreams that put episodes together earn returns that nobody in the data earned',
      reading=final('eval/episodes/return'),
      asserts=(above('conditioning alone', by=0.2),),
      baseline=Arm('conditioning alone', {'steps': 4000}, 'offline/rcsl_maze'),
      controls=(Arm('all dreams are kept', {'rollout.kept_share': 1.0}),),
      minutes=4.0,
  )
