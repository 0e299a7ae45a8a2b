"""FARE: one judge of five formats, shown a little, then taught by its own right verdicts in two rounds.

    rlx --config=preferences/formats_fare --workdir=runs/fare

A judge is asked of sums with slips (`envs/evaluating.py`): which of two solutions ends right, where the first
wrong step is, whether a solution ends right beside the right answer and without it, and how many of its steps
are right. It is shown thoughts and verdicts for a while (`shown`). In each of two rounds a frozen copy of it
(`sampler`) answers fresh questions four times; its right answers to questions at which others of them fail
are what it learns next (`rejective`). It chooses among eight solutions as well, by votes.

Three times one seed was tried, and the claim did not show in any: the judge is not shown enough to add. With
sums of three digits it is at the base rates after 240 steps, but with the answer beside it, and rises there
alone (0.74 to 0.80 in two rounds). With two digits, as here, it learns the sums that it is trained on by
heart: in two rounds 0.58 and 0.72 of its samples are right, and of held-out questions no more than before.

Tried since, on two trial seeds each. With two digits a held-out sum is a place of the table that is in no
lesson, so that judges have to find the rule: after 1600 steps of `shown` they were right in 0.64 and 0.92,
after the rounds in 0.69 and 0.91. With three digits modulo 5 all places are taught, and 640 steps suffice for
0.66 and 0.68; two rounds made 0.72 and 0.70 of it (pairs 0.61 and 0.70 to 0.62 and 0.73, free verdicts 0.52
and 0.71 to 0.77 and 0.64), and the share of the best of eight 0.44 and 0.30. That is no rise in all five
formats, and takes some 75 CPU-seconds a run.

Paper: https://arxiv.org/abs/2510.17793

Result: it does not show. Final eval/formats/mean after 480 train steps, median of 5 seeds (worst): 0.5426
(0.516), 'nothing rejected' 0.5855 (0.504), 'SFT alone' 0.5631 (0.4765). Claimed, and got (95 % interval over
seeds): final eval/formats/pairwise: above 'nothing rejected' by 0.02, got -0.02819 (-0.04312 to 3.333e-06),
the run fails it; final eval/formats/step: above 'nothing rejected' by 0.02, got 0.0404 (-0.001683 to
0.09932), the seeds leave it open; final eval/formats/referenced: above 'nothing rejected' by 0.02, got
0.03141 (-0.03665 to 0.1466), the seeds leave it open; final eval/formats/free: above 'nothing rejected' by
0.02, got -0.04082 (-0.09524 to 0.02041), the run fails it; final eval/formats/rating: above 'nothing
rejected' by 0.02, got -0.162 (-0.2508 to -0.02025), the reverse holds; final eval/best_of_8/share: above 0.8,
got -0.1044 (-0.2606 to 0.08956), the run fails it. 431 CPU-s on 2 cores of a CPU;
`rlx reproduce preferences/formats_fare`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.envs.evaluating import FORMATS
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic

SHOWN, STEPS = 320, 80  # of the supervised stage, and of each round


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=STEPS)
  config.stages = ('shown', 'first', 'main')
  config.shown = config.sft
  del config['sft']
  config.task = {'name': 'evaluating', 'modulus': 7, 'length': 2, 'held_out_share': 0.2}
  config.models.policy.update(width=48, mlp_size=128, context_length=24)
  config.decoding.max_tokens = 8
  config.shown.steps, config.shown.stop = SHOWN, ConfigDict()
  config.shown.task = config.task  # the same object: an override reaches all stages
  config.shown.decoding.max_tokens = 8
  config.shown.rollout.batch_size = 64
  samples = {**config.rollout, 'names': {'policy': 'sampler'}, 'batch_size': 256, 'group_size': 4}
  config.rollout = {'name': 'rejective', 'rollout': samples, 'reward': {'name': 'verifier'}}
  del config['reward']
  config.algorithm = {'name': 'sft'}
  config.slow = {'sampler': 'policy'}
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  config.first = {
      'steps': STEPS, 'stop': ConfigDict(), 'trained': ('policy',), 'slow': config.slow.to_dict(),
      'decoding': config.decoding.to_dict(), 'rollout': config.rollout.to_dict(),
      'algorithm': {'name': 'sft'}, 'updates': config.updates.to_dict(),
      'optimizer': config.optimizer.to_dict(),
  }
  config.first.task = config.task
  config.evals = {
      'formats': {'name': 'by_format', 'every': STEPS, 'problems': 1000},
      'best_of_8': {'name': 'reranking', 'every': STEPS, 'problems': 128, 'candidates': 8, 'votes': 4},
  }
  config.checkpoint.every = 200
  config.log.update(headline='eval/formats/mean', steps_per_dispatch=20, samples=0)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: as many steps on samples of which none is rejected. What SFT leaves is beside it."""
  everything = {
      f'{stage}rollout': {
          'name': 'prompts.completions', 'names': {'policy': 'sampler'}, 'batch_size': 256, 'group_size': 4,
          'num_slots': 0,
      } for stage in ('first.', '')
  }
  return Claim(
      paper='S141',
      says='two rounds of learning its own right verdicts make a judge right more often in all five formats; '
      'what it chooses among eight solutions is close to the best of them',
      reading=final('eval/formats/mean'),
      asserts=(
          *(above('nothing rejected', by=0.02, reading=final(f'eval/formats/{name}')) for name in FORMATS),
          reaches(0.8, reading=final('eval/best_of_8/share')),
      ),
      controls=(Arm('nothing rejected', everything),),
      beside=(Arm('SFT alone', {'first.optimizer.learning_rate': 0.0, 'optimizer.learning_rate': 0.0}),),
      minutes=6.0,
  )


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.shown.steps = config.first.steps = 4
  config.shown.rollout.batch_size = 16
  config.rollout.rollout.batch_size = config.first.rollout.rollout.batch_size = 16
  config.evals.formats.update(every=2, problems=40)
  config.evals.best_of_8.update(every=2, problems=8, votes=2)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
