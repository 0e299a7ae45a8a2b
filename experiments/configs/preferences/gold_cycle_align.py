"""CycleAlign: a ranker and a policy agree on part of a ranking, which both then learn from, in a cycle.

    rlx --config=preferences/gold_cycle_align --workdir=runs/gold_cycle_align

Somebody whose parameters nobody sees ranks six samples of the policy; its opinions and the policy's logits
each know something of the true reward and are wrong in ways of their own (`gold.opinionated_worlds`). The
policy learns the order. What of it is the policy's own order by likelihood too is shown to the ranker as a
demonstration; a linear model that learns from them stands for what a language model learns from its context.

Paper: https://arxiv.org/abs/2310.16271

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, Reading, above, final, mean, reaches
from rlx.experiments.configs.preferences import gold_dpo

GROUP, NOISE, CYCLES = 6, 0.5, 4
SLOWLY = 2e-3  # beside demonstrations, which a ranker follows at once


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg, steps=1200)
  config.task = {
      'name': 'opinionated_worlds', 'num_prompts': 64, 'num_answers': 32, 'width': 24, 'base_knows': 0.5,
      'other_knows': 0.5,
  }
  config.models.judge = {'name': 'gold.linear'}
  agreed = lambda: {'group_size': GROUP, 'noise': NOISE, 'believed': {'name': 'ranking.longest_agreed'}}
  config.rollout = {
      'name': 'each', 'policy': {'name': 'gold.groups', 'batch_size': 16 * GROUP, 'group_size': GROUP},
  }
  config.reward = {'name': 'cycles.in_cycles', 'of': 'policy', 'to': 'judge', **agreed()}
  learnt = lambda: {'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict(), 'every': 1}
  policy = {
      'algorithm': {'name': 'cycle_align', 'group_size': GROUP, 'nll_coef': 1.0}, 'trained': ('policy',),
      **learnt(),
  }
  policy['optimizer']['learning_rate'] = SLOWLY
  judge = {'algorithm': {'name': 'bradley_terry', 'centring': 0.01}, 'trained': ('judge',), **learnt()}
  config.slow = {'world': 'world'}
  config.evals.rankings = {'name': 'cycles.purity', 'every': config.evals.gold.every, **agreed()}
  for name in ('algorithm', 'updates', 'optimizer', 'trained'):
    del config[name]
  config.learners = {'order': ('policy', 'judge'), 'shared': (), 'policy': policy, 'judge': judge}
  return config


def claim() -> Claim:
  """The mechanism off shows the ranker all that it has said itself; without demonstrations is beside it."""

  def least_rise(at, values):
    """[seeds] the least that the gain rises from one quarter of the run to the next."""
    ends = [round(k * (values.shape[1] - 1) / CYCLES) for k in range(CYCLES + 1)]
    return (values[:, ends[1:]] - values[:, ends[:-1]]).min(axis=1)

  whole = {'name': 'ranking.whole'}
  rises = Reading('eval/gold/gain', f'least rise in {CYCLES} parts of', least_rise)
  believed = mean('eval/rankings/believed')
  return Claim(
      paper='S118',
      says='what a ranker and the policy agree on is purer than what the ranker says; where it is shown to '
      'the ranker, the reward rises in each cycle, and further',
      reading=final('eval/gold/gain'),
      asserts=(
          reaches(0.0, reading=mean('eval/rankings/purer')), above('whole rankings', reading=believed),
          reaches(0.0, reading=rises), above('whole rankings'),
      ),
      controls=(Arm('whole rankings', {'reward.believed': whole, 'evals.rankings.believed': whole}),),
      beside=(Arm('no demonstrations', {'learners.judge.optimizer.learning_rate': 0.0}),),
      seeds=10,
      minutes=2.0,
  )
