"""One policy for all trade-offs between treasure and time; raise `eval/preferences/hypervolume`.

The search over hyper-parameters is a sweep of this config:

    rlx sweep --config=control/morl_treasure --workdir=runs/morl_hpo \\
        --metric=eval/preferences/hypervolume --config.population.size=3 \\
        --space.optimizer.learning_rate=1e-4..2e-2:log --space.algorithm.entropy_coef=1e-4..1e-1:log \\
        --space.algorithm.discount=0.8..0.999

Paper: Felten et al., 2023, https://arxiv.org/abs/2310.16487

    rlx --config=control/morl_treasure --workdir=runs/morl_treasure

Result: it shows. Final eval/preferences/hypervolume after 200 train steps, median of 10 seeds (worst): 510.5
(505.2), 'one preference' 332.6 (287.5). Claimed, and got (95 % interval over seeds): above 'one preference'
by 50, got 175.8 (137.3 to 213.7). 59 CPU-s on 1 cores of a CPU; `rlx reproduce control/morl_treasure`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.control import ppo_cartpole


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = ppo_cartpole.get_config(arg)
  config.env = {
      'name': 'treasure_preferences', 'max_steps': 30,
      'scales': (23.7, 19.0),  # the best treasure, and the steps to it
      'concentration': 1.0,  # weights are drawn evenly
  }
  every = config.evals.episodes.every
  config.evals = {
      'preferences': {
          'name': 'pareto.hypervolumes', 'every': every, 'objectives': ('treasure', 'time'),
          'reference': (0.0, -30.0), 'num_preferences': 11, 'max_steps': 30,
      },
  }
  config.log.headline = 'eval/preferences/hypervolume'
  return config


def claim() -> Claim:
  """A policy that was taught one preference, of both objectives alike, is asked for all of them."""
  return Claim(
      paper='',
      says='one policy that was taught all preferences reaches a front that one preference does not',
      reading=final('eval/preferences/hypervolume'),
      asserts=(above('one preference', by=50.0),),
      controls=(Arm('one preference', {'env.concentration': 1e6}),),
      seeds=10,
      minutes=3.0,
  )
