"""StepORLM: a policy solves linear programs, a judge speaks of its steps, and each refines the other.

    rlx --config=preferences/programs_step_orlm --workdir=runs/step_orlm

A linear program is solved by two corners, what each is worth, and the larger value
(`envs/linear_programs.py`); a solver knows the optimum, and nothing of the steps. The policy is shown
solutions (`sft`), the judge, a copy of it, what the policy says with the grades of its steps (`schooled`).
Then both learn side by side by weighted DPO: the policy from its best and worst solution of a program, by the
solver and by the judge, and the judge from its best and worst verdict on a solution, by the solver and by its
own vote (`rollout.spoken_steps.dual_feedback`). Nothing reads the grades of steps then; the judge is examined
on what the policy said before (`beginner`), so that its task stays the same.

Three times one seed was tried, and the claim did not show in any. With 495 programs the policy knew those
that it was trained on by heart. With 4,125 of them, as here, two answers of five were right before, two
thirds of those by a wrong step, and the judge told 0.81 of right and wrong steps, which stayed so; after 120
steps one answer of three was right, 0.85 of those by a wrong step. Of fresh pairs the policy preferred the
worse ones more and more (`preference/right` from 0.46 to 0.28). 3e-4 moved nothing with a third of the pairs.
With an NLL term as heavy as DPO's loss beside it, on two trial seeds, 0.83 of the right answers came by a
wrong step, 0.79 by the solver alone, and the judge told steps no better than before.

With coefficients up to 3 and bounds up to 5, a rate of 3e-4 and the solver alone (two trial seeds, 120 steps)
answers become right more often, 0.70 of them and not 0.63, and `preference/right` falls to 0.38 all the same:
it is no sign that learning goes astray. Perhaps a wrong answer that is sampled is one that has become
likelier than it was under the reference. Of right answers 0.35 had a wrong step there, 0.34 before; the
judge, schooled for 20 steps, was not asked. Schooled for 1,200 steps on 128 rows, at a falling rate, judges
of two other trial seeds told 0.83 and 0.85 of right and wrong steps; 0.79 and 0.67 of the right answers came
by a wrong step in the end, of those by the solver alone 0.76 and 0.69, and 0.59 and 0.52 before.

Paper: https://arxiv.org/abs/2509.22558

Result: it does not show. Final eval/steps/lucky after 720 train steps, median of 5 seeds (worst): 0.8919
(0.9213), 'outcome alone' 0.8671 (0.9055), 'judge as it was' 0.817 (0.9041). Claimed, and got (95 % interval
over seeds): below 'outcome alone' by 0.05, got -0.01155 (-0.08752 to 0.01652), the run fails it; final
eval/steps/sound: above 'outcome alone' by 0.02, got -0.001302 (-0.02539 to 0.01432), the run fails it; rise
of eval/judge/balanced: above 0.02, got 0.003061 (-0.04079 to 0.0126), the run fails it; least rise from round
to round of eval/judge/balanced: above 0, got -0.001701 (-0.04838 to 0.002429), the run fails it. 1032 CPU-s
on 2 cores of a CPU; `rlx reproduce preferences/programs_step_orlm`.
"""

from ml_collections import ConfigDict
import numpy as np

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above, final, reaches, rise
from rlx.experiments.configs.quickstart import arithmetic

SHOWN, SCHOOLED, STEPS = 300, 300, 120
ROUNDS = 3  # evaluations of the last stage


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.stages = ('sft', 'schooled', 'main')
  config.task = {'name': 'linear_programs', 'coefficient': 5, 'bound': 9, 'held_out_share': 0.1}
  config.models.policy.update(width=48, mlp_size=128, context_length=32)
  config.models.judge = {'name': 'copy', 'names': {'of': 'policy'}}
  config.decoding.max_tokens = 15
  config.sft.steps, config.sft.stop = SHOWN, ConfigDict()
  config.sft.task = config.task  # the same object: an override reaches all stages
  config.sft.decoding.max_tokens = 15
  config.sft.rollout.batch_size = 64
  schooled = config.sft.to_dict()
  config.schooled = {
      **schooled, 'steps': SCHOOLED, 'trained': ('judge',), 'slow': {'policy': 'policy'},
      'rollout': {'name': 'spoken_steps.taught', 'batch_size': 64},
      'algorithm': {'name': 'sft', 'names': {'policy': 'judge'}},
  }
  config.schooled.task = config.task
  config.slow = {'beginner': 'policy', 'reference': 'policy', 'examiner': 'judge'}
  config.rollout = {
      'name': 'dual_feedback', 'batch_size': 96, 'group_size': 4, 'votes': 4, 'process_coef': 0.5,
  }
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  learns = {'updates': {'epochs': 1, 'minibatches': 1, 'microbatches': 1}, 'every': 1}
  dpo = {'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': 0.1}}
  config.learners = {
      'order': ('policy', 'judge'), 'shared': (),
      'policy': {
          **learns, 'algorithm': {**dpo}, 'trained': ('policy',), 'optimizer': config.optimizer.to_dict(),
      },
      'judge': {
          **learns, 'algorithm': {**dpo, 'names': {'policy': 'judge', 'reference': 'examiner'}},
          'trained': ('judge',), 'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 5e-4},
      },
  }
  for name in ('algorithm', 'updates', 'optimizer', 'trained', 'reward'):
    del config[name]
  every = STEPS // ROUNDS
  config.evals = {
      'steps': {'name': 'graded', 'every': every, 'problems': 512},
      'judge': {
          'name': 'steps.judged', 'names': {'policy': 'beginner'}, 'every': every, 'problems': 256,
          'votes': 4,
      },
  }
  config.checkpoint.every = 200
  config.log.update(headline='eval/steps/lucky', steps_per_dispatch=20, samples=0)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: pairs by the solver alone. A judge that learns nothing is beside it."""
  every_round = Reading(
      'eval/judge/balanced', 'least rise from round to round of',
      lambda at, values: np.diff(values[:, -ROUNDS - 1:], axis=1).min(axis=1),
  )
  return Claim(
      paper='S080',
      says='right answers by wrong steps become rarer than by pairs of the solver alone, and the judge of '
      'steps gets better each round',
      reading=final('eval/steps/lucky', lower=True),
      asserts=(
          above('outcome alone', by=0.05),
          above('outcome alone', by=0.02, reading=final('eval/steps/sound')),
          reaches(0.02, reading=rise('eval/judge/balanced')),
          reaches(0.0, reading=every_round),
      ),
      controls=(Arm('outcome alone', {
          'rollout.process_coef': 0.0, 'learners.judge.optimizer.learning_rate': 0.0,
      }),),
      beside=(Arm('judge as it was', {'learners.judge.optimizer.learning_rate': 0.0}),),
      minutes=8.0,
  )


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = config.schooled.steps = 4
  config.sft.rollout.batch_size = config.schooled.rollout.batch_size = 16
  config.rollout.update(batch_size=16, group_size=4, votes=2)
  config.evals.steps.update(every=2, problems=16)
  config.evals.judge.update(every=2, problems=16, votes=2)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
