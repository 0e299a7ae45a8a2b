"""SS-ORL: IQL on episodes of which nine in ten have no actions.

Paper: Zheng et al., 2022, https://arxiv.org/abs/2210.06518

    rlx --config=offline/ss_orl_pointmass --workdir=runs/ss_orl_pointmass

Result: it shows. Final eval/episodes/return after 4000 train steps, median of 10 seeds (worst): -41.05
(-52.65), 'all actions' -36.28 (-42.54), 'no inverse model' -101.9 (-108). Claimed, and got (95 % interval
over seeds): above 'all actions' by -15, got -4.306 (-6.739 to -2.156). 157 CPU-s on 2 cores of a CPU;
`rlx reproduce offline/ss_orl_pointmass`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import iql_pointmass as parent


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of iql_pointmass."""
  config = parent.get_config(arg)
  steps = config.steps
  config.stages = ('labels', 'main')
  config.models.inverse = {'name': 'dynamics.inverse', 'hidden': (32, 32), 'activation': 'relu'}
  config.data = {
      'name': 'partly_labelled',
      'labelled_every': 10,  # episodes
      'data': config.data.to_dict(),
  }
  config.labels = {
      'steps': steps,
      'stop': ConfigDict(),
      'data': config.data.to_dict(),
      'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'ss_orl'},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
      'trained': ('inverse',),
      'slow': {'policy': 'policy'},  # as it begins; evaluations play it
  }
  config.slow.inverse = 'inverse'
  config.rollout.name = 'proxy_actions'
  return config


def claim() -> Claim:
  """Beside IQL on all actions with as many updates; with an inverse model that has learnt nothing."""
  return Claim(
      paper='S173',
      says='a tenth of the actions is nearly as good as all of them',
      reading=final('eval/episodes/return'),
      asserts=(above('all actions', by=-15.0),),
      baseline=Arm('all actions', {'steps': 4000}, 'offline/iql_pointmass'),
      controls=(Arm('no inverse model', {'labels.optimizer.learning_rate': 0.0}),),
      seeds=10,
      minutes=3.0,
  )
