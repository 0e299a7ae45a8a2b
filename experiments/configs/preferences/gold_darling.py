"""DARLING with a learnt classifier of meanings: many right answers stay, in whatever words.

    rlx --config=preferences/gold_darling --workdir=runs/gold_darling

Answers are eight meanings in four wordings each, half of the meanings right, and the reference prefers some.
A classifier learns from pairs of its answers whether two mean the same; then GRPO learns from the quality of
an answer times the share of its group that the classifier tells from it. With equal strings in its place
(`policy_gradient/darling_countdown` for a decoder) another wording is as good as another meaning.

Nothing holds the policy, so that with quality alone it settles on one of about four right meanings; all
arms end with 99 % right answers or more, so pass@8 is 1 in each and tells nothing. Equal strings do most of
it: what spreads a policy over wordings spreads it over meanings too.

Paper: https://arxiv.org/abs/2509.02534

Result: it shows. Final eval/found/meanings after 1200 train steps, median of 10 seeds (worst): 3.025 (2.686),
'GRPO' 1.192 (1.045), 'untaught' 1.192 (1.045), 'equal strings' 2.748 (2.307). Claimed, and got (95 % interval
over seeds): above 'GRPO' by 0.3, got 1.843 (1.671 to 2); above 'equal strings' by 0.1, got 0.2847 (0.1932 to
0.3699); final eval/found/accuracy: above 0.9, got 0.9896 (0.9868 to 0.9921). 96 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/gold_darling`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.preferences import gold_dpo

BAR = 0.0


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of `preferences/gold_dpo.py`."""
  config = gold_dpo.get_config(arg)
  config.task = {
      'name': 'paraphrased_worlds', 'num_prompts': 8, 'num_meanings': 8, 'num_phrasings': 4, 'width': 64,
      'apart': 0.7, 'hidden': 0.5, 'favoured': 1.0,
  }
  config.stages = ('telling', 'main')
  config.models.twins = {'name': 'gold.twins'}
  config.telling = {
      'steps': config.steps,
      'stop': ConfigDict(),
      'trained': ('twins',),
      'slow': {'world': 'world', 'policy': 'policy'},
      'rollout': {'name': 'gold.twin_pairs', 'batch_size': 128},
      'algorithm': {'name': 'pointwise', 'names': {'judge': 'twins'}},
      'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.slow = {'world': 'world', 'twins': 'twins'}  # nothing holds the policy
  config.rollout = {'name': 'gold.groups', 'batch_size': 128, 'group_size': 8}
  config.reward = {'name': 'distinct_meanings', 'bar': BAR}
  config.algorithm = {
      'name': 'grpo', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'no_kl'}, 'entropy_coef': 0.0,
      'baseline': {'name': 'groups.centred'},  # as in the paper
  }
  config.evals = {
      'found': {'name': 'found_meanings', 'every': config.evals.gold.every, 'bar': BAR, 'tries': 8},
  }
  config.log.headline = 'eval/found/meanings'
  return config


def claim() -> Claim:
  """The mechanism off is a classifier that nobody taught, which tells all answers apart."""
  accuracy = final('eval/found/accuracy')
  return Claim(
      paper='S221',
      says='quality times diversity, as a learnt classifier tells meanings, finds more right meanings in '
      'eight answers than quality alone, and than equal strings',
      reading=final('eval/found/meanings'),
      asserts=(above('GRPO', by=0.3), above('equal strings', by=0.1), reaches(0.9, reading=accuracy)),
      baseline=Arm('GRPO', {'reward': {'name': 'rightness', 'bar': BAR}}),
      controls=(Arm('untaught', {'telling.optimizer.learning_rate': 0.0}),),
      beside=(Arm('equal strings', {'reward': {'name': 'distinct_strings', 'bar': BAR}}),),
      seeds=10,
      minutes=2.0,
  )
