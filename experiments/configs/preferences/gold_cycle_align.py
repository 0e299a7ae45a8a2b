"""CycleAlign: a ranker and a policy agree on part of a ranking, which both then learn from, in a cycle.

    rlx --config=preferences/gold_cycle_align --workdir=runs/gold_cycle_align

Somebody whose parameters nobody sees ranks six samples of the policy; its opinions and the policy's logits
each know something of the true reward and are wrong in ways of their own (`gold.opinionated_worlds`). The
policy learns the order. What of it is the policy's own order by likelihood too is shown to the ranker as a
demonstration; a linear model that learns from them stands for what a language model learns from its context.

What is agreed on is purer by 0.11 before the first step and by 0.02 on average: the policy takes over the
ranker's order, and agreement then tells little. With a policy that learns as fast as the ranker, and a tenth
of RRHF's weight on the best answer, it did so before the ranker had learnt anything, and gained next to
nothing (two seeds); both were changed. The bounds of the claim were set after a look at four seeds of the run
and of whole rankings. Where the ranker is shown all of its own rankings, the reward falls
first, for the policy's own knowledge is lost.

Paper: https://arxiv.org/abs/2310.16271

Result: it shows. Final eval/gold/gain after 1200 train steps, median of 10 seeds (worst): 0.3306 (0.176),
'whole rankings' 0.2601 (0.1284), 'no demonstrations' -0.02977 (-0.0676). Claimed, and got (95 % interval over
seeds): mean over the run of eval/rankings/purer: above 0, got 0.02074 (0.01698 to 0.02348); mean over the run
of eval/rankings/believed: above 'whole rankings', got 0.02522 (0.01908 to 0.02942); least rise in 4 parts of
eval/gold/gain: above 0, got 0.05071 (0.03007 to 0.06113); above 'whole rankings', got 0.06641 (0.05141 to
0.08318). 64 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/gold_cycle_align`.
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
