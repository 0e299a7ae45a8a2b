"""Behaviour cloning of a cautious controller, where actions act late; or in wind, or under a limit.

Paper: Gao et al., 2025, https://arxiv.org/abs/2503.19267

    rlx --config=offline/bc_near_real --workdir=runs/bc_late
    rlx --config=offline/bc_near_real:problem=windy --workdir=runs/bc_windy
    rlx --config=offline/bc_near_real:problem=limited --workdir=runs/bc_limited

The records score 64.8, 53.5 and 65.0 (late, windy, limited; measured in tests/papers/test_neorl.py).

Result: it shows. Final eval/episodes/score after 2000 train steps, median of 10 seeds (worst): 64.1 (62.8),
'CQL' 56.78 (43.5), 'not trained' -12.54 (-13.18), 'TD3+BC' 63.27 (61.55). Claimed, and got (95 % interval
over seeds): above 'CQL' by -3, got 7.534 (5.52 to 11.18); above 'TD3+BC' by -3, got 0.7553 (0.07066 to
1.556). 90 CPU-s on 1 cores of a CPU; `rlx reproduce offline/bc_near_real`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.offline import bc_pointmass as parent

PROBLEMS = {
    'late': {'steps': 3},
    'windy': {'std': 0.3, 'persistence': 0.9},  # in units of the actions; of a step
    'limited': {'limit': 10},  # steps
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `problem` (late, windy or limited)."""
  arg = parse_arg(arg, smoke=False, problem='late')
  config = parent.get_config('smoke' if arg.smoke else '')
  config.env = {
      'name': f'near_real.{arg.problem}', 'max_steps': 100, **PROBLEMS[arg.problem],
  }
  config.data = {
      'name': 'behaviours.cautious',
      'num_envs': config.data.num_envs,
      'num_steps': config.data.num_steps,
      'discount': 0.97,
      'seed': 0,
  }
  return config


def claim() -> Claim:
  """Late actions; the wind is `cql_near_real`'s, and the limit `td3_bc_near_real`'s."""
  return Claim(
      paper='S081',
      says='from cautious records, a clone earns as much as offline RL where actions act late',
      reading=final('eval/episodes/score'),
      asserts=(above('CQL', by=-3.0), above('TD3+BC', by=-3.0)),
      baseline=Arm('CQL', config='offline/cql_near_real'),
      controls=(Arm('not trained', {'optimizer.learning_rate': 0.0}),),
      beside=(Arm('TD3+BC', config='offline/td3_bc_near_real'),),
      seeds=10,
      minutes=4.0,
  )
