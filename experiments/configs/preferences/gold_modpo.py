"""MODPO: a policy for two objectives, of comparisons of the one and a reward model of the other.

    rlx --config=preferences/gold_modpo --workdir=runs/gold_modpo
    rlx --config=preferences/gold_modpo:weight=0.8 --workdir=runs/gold_modpo_8

The two true rewards are in each other's way; the reward model learns from comparisons by the second first. A
front is a run for each weight.

Paper: https://arxiv.org/abs/2310.03708

Result: it shows. Final eval/both/value after 1200 train steps, median of 40 seeds (worst): 0.822 (0.7347),
'DPO' -0.6908 (-1.46), 'w = 0.2' 0.8662 (0.7625), 'w = 0.8' 0.8799 (0.7924). Claimed, and got (95 % interval
over seeds): above 0.8, got 0.8204 (0.8025 to 0.8387); above 'DPO' by 0.1, got 1.518 (1.45 to 1.574); final
eval/both/second: above 'w = 0.8' by 0.1, got 0.5752 (0.5582 to 0.5959). 50 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_modpo`.

On the seeds 0 to 19 the value was 0.819, and 0.8 not out of reach (0.799 to 0.841); these are the next forty.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.preferences import gold_dpo

BETA = 0.5


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `weight` of the first objective."""
  arg = parse_arg(arg, smoke=False, weight=0.5)
  config = gold_dpo.get_config(f'smoke={arg.smoke}')
  config.seed = 20  # the first ones had been looked at
  config.task = {
      'name': 'two_sided_worlds', 'num_prompts': 64, 'num_answers': 32, 'width': 24, 'conflict': 0.3,
  }
  config.stages = ('rewarding', 'main')
  config.models.update({'judge': {'name': 'gold.linear'}, 'other': {'name': 'gold.other_side'}})
  config.rewarding = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('judge',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': {**config.rollout, 'names': {'world': 'other'}},
      'algorithm': {'name': 'bradley_terry', 'centring': 0.01},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.slow = {'world': 'world', 'reference': 'policy', 'judge': 'judge'}
  config.algorithm = {'name': 'modpo', 'beta': BETA, 'weight': arg.weight}
  config.evals = {
      'both': {
          'name': 'gold.scalarised', 'every': config.evals.gold.every, 'weight': arg.weight, 'beta': BETA,
      },
  }
  config.log.headline = 'eval/both/value'
  return config


def claim() -> Claim:
  """With w = 1 it is DPO on the first objective; two more weights show the front."""
  second = final('eval/both/second')
  of = lambda weight: Arm(f'w = {weight}', config=f'preferences/gold_modpo:weight={weight}')
  dpo = Arm('DPO', {'algorithm.weight': 1.0})
  return Claim(
      paper='S146',
      says='comparisons of one objective and a reward model of the other give most of what the closed-form '
      'optimum for both has, on a monotone front',
      reading=final('eval/both/value'),
      asserts=(reaches(0.8), above('DPO', by=0.1), above('w = 0.8', by=0.1, reading=second)),
      controls=(dpo,),
      beside=(of(0.2), of(0.8)),
      seeds=40,
      minutes=2.0,
  )
