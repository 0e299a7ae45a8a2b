"""CQL on records of a cautious controller, where actions act late; or in wind, or under a limit.

Paper: Gao et al., 2025, https://arxiv.org/abs/2503.19267; the algorithm: Kumar et al., 2020, https://arxiv.org/abs/2006.04779

    rlx --config=offline/cql_near_real --workdir=runs/cql_late

The records score 64.8, 53.5 and 65.0 (late, windy, limited; measured in tests/papers/test_neorl.py).

Result: it shows. Final eval/episodes/score after 2000 train steps, median of 10 seeds (worst): 56.19 (53.06),
'cloning' 55.37 (53.41), 'no conservatism' -36.75 (-37.72). Claimed, and got (95 % interval over seeds): final
eval/episodes/score: below 'cloning' by -3, got -1.053 (-2.583 to 0.5543); above 'no conservatism' by 10, got
80.73 (62.46 to 93.2). 117 CPU-s on 1 cores of a CPU; `rlx reproduce offline/cql_near_real`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_near_real as parent
from rlx.experiments.configs.offline import cql_pointmass


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of bc_near_real."""
  config, learner = parent.get_config(arg), cql_pointmass.get_config()
  for section in ('models', 'trained', 'slow', 'algorithm'):
    config[section] = learner[section]
  return config


def claim() -> Claim:
  """In wind. That it is not above the clone is said of a score that is to be low."""
  return Claim(
      paper='S081',
      says='conservative values earn in wind what the clone of the records earns, and not more',
      argument='problem=windy',
      reading=final('eval/episodes/score'),
      asserts=(
          above('cloning', by=-3.0, reading=final('eval/episodes/score', lower=True)),
          above('no conservatism', by=10.0),
      ),
      baseline=Arm('cloning', config='offline/bc_near_real:problem=windy'),
      beside=(Arm('no conservatism', {'algorithm.conservatism': 0.0}),),
      seeds=10,
      minutes=4.0,
  )
