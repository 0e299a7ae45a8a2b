"""Judges that speak as the reward of a policy: one of a grade, of a chance, of pairs, of lists, with votes.

    rlx --config=preferences/chain_judges --workdir=runs/judge_yes
    rlx --config=preferences/chain_judges:judge=grade --workdir=runs/judge_grade
    rlx --config=preferences/chain_judges:judge=pairs --workdir=runs/judge_pairs
    rlx --config=preferences/chain_judges:judge=pair_chances --workdir=runs/judge_pair_chances
    rlx --config=preferences/chain_judges:judge=list --workdir=runs/judge_list

Sums modulo four, said step by step (`envs/chain.py`). The policy is shown solutions (`sft`), and then samples
at a temperature at which two of three are right, which is the noise of this toy. A judge, a copy of it, is
shown right verdicts on what the policy says then (`judging`): of one answer, of two, or of all four to a
problem. In the main stage it is frozen, and its verdicts (`rewards/judges.py`) are all that the policy is
paid for, held by a KL. Who has not a solution's form is worth nothing.

Result: a frozen judge is pleased and not obeyed. Of five seeds side by side 0.41 to 0.73 of the
held-out answers are right before the main stage (median 0.63), 1 to 5 % of these by a wrong step; after its
50 steps

    judge                 right, median (worst)  of these by a wrong step, median (worst)
    yes                             0.26 (0.21)                              0.85 (1.00)
    grade                           0.36 (0.22)                              0.29 (0.91)
    pairs                           0.23 (0.17)                              0.82 (0.98)
    pair_chances                    0.22 (0.21)                              0.91 (1.00)
    list                            0.28 (0.25)                              0.34 (0.72)

`--config.population.size=5`; `grade`, `pairs` and `list` took five to six and a half minutes by the clock,
with other work beside them.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.errors import ConfigError
from rlx.experiments.configs.quickstart import arithmetic

SHOWN, JUDGING, STEPS = 100, 300, 50
GROUP = 4
_ASKED = {'asks': '=', 'marker': '#'}
_GROUP = {'group_size': GROUP, 'beside': '='}
ONE = {'name': 'judges.pointwise', **_ASKED, 'words': '0 1'}  # no and yes
PAIR = {'name': 'judges.pairwise', **_ASKED, **_GROUP, 'words': '1 2'}
LIST = {'name': 'judges.listwise', **_ASKED, **_GROUP, 'orders': GROUP, 'words': '0 1'}
JUDGES = {
    'yes': {'name': 'by_chances', 'form': ONE, 'thoughts': 0, 'votes': 1},
    'grade': {'name': 'by_verdicts', 'form': ONE, 'thoughts': 0, 'votes': 4},
    'pairs': {'name': 'by_verdicts', 'form': PAIR, 'thoughts': 0, 'votes': 1},
    'pair_chances': {'name': 'by_chances', 'form': PAIR, 'thoughts': 0, 'votes': 1},
    'list': {'name': 'by_verdicts', 'form': LIST, 'thoughts': 0, 'votes': 1},
}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `judge`, one of `JUDGES`."""
  arg = parse_arg(arg, smoke=False, judge='yes')
  if arg.judge not in JUDGES:
    raise ConfigError(f'judge={arg.judge!r} is none of {", ".join(JUDGES)}')
  judge = JUDGES[arg.judge]
  config = arithmetic.get_config('', steps=STEPS)
  config.stages = ('sft', 'judging', 'main')
  config.task = {
      'name': 'chain', 'modulus': 4, 'min_steps': 4, 'max_steps': 4, 'checks': 0, 'held_out_share': 0.2,
  }
  config.models.policy.update(width=48, mlp_size=128, context_length=64)  # room for all answers of a group
  config.models.judge = {'name': 'copy', 'names': {'of': 'policy'}}
  config.decoding.update(max_tokens=11, temperature=1.5)
  config.sft.decoding.max_tokens = 11
  config.sft.steps, config.sft.stop = SHOWN, ConfigDict()
  config.sft.task = config.task  # the same object: an override reaches all stages
  config.sft.rollout.batch_size = 64
  config.judging = {
      **config.sft.to_dict(), 'steps': JUDGING, 'trained': ('judge',), 'slow': {'policy': 'policy'},
      'decoding': config.decoding.to_dict(),
      'rollout': {
          'name': 'shown_verdicts', 'form': judge['form'], 'reward': {'name': 'verifier'},
          'rollout': {
              'name': 'prompts.completions', 'batch_size': 64, 'group_size': GROUP, 'num_slots': 0,
          },
      },
      'algorithm': {'name': 'sft', 'names': {'policy': 'judge'}},
  }
  config.judging.task = config.task
  config.judging.optimizer.learning_rate = 1e-3
  config.slow = {'judge': 'judge', 'reference': 'policy'}
  config.algorithm.kl = {'name': 'kl_in_loss', 'coef': 0.04}
  config.rollout.update(batch_size=128, group_size=GROUP)
  config.reward = {'name': 'spoken_steps.in_form', 'reward': judge}
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  config.evals = {'steps': {'name': 'graded', 'every': 50, 'problems': 256}}
  config.checkpoint.every = 200
  config.log.update(headline='eval/steps/accuracy', steps_per_dispatch=25, samples=0)
  if arg.smoke:
    _shrink(config)
  return config


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = config.judging.steps = 4
  config.sft.rollout.batch_size = config.rollout.batch_size = config.judging.rollout.rollout.batch_size = 16
  config.evals.steps.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
