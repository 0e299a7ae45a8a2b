"""Math-Shepherd: a head learns which steps are right from completions alone, and pays a policy for them.

    rlx --config=preferences/chain_shepherd --workdir=runs/shepherd
    rlx --config=preferences/chain_shepherd:labels=outcome --workdir=runs/outcome_labels
    rlx --config=preferences/chain_shepherd:labels=outcome,aggregation=last --workdir=runs/outcome_head

Sums modulo seven, said step by step (`envs/chain.py`). The policy is shown solutions until a part of its own
are right (`sft`). From the end of each step of what it says then it goes on eight times, and a head on a copy
of it learns how many of these are right (`labelled`): nobody grades a step. In the main stage the policy
learns by GRPO from the least of the numbers that the head says of its steps. Who says fewer steps has fewer
that could be wrong, so a row without a solution's form is worth nothing (`rewards.spoken_steps.in_form`).

Paper: https://arxiv.org/abs/2312.08935

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.errors import ConfigError
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic

SHOWN, LABELLED, STEPS = 100, 150, 100
SAMPLES = {'name': 'prompts.completions', 'batch_size': 64, 'group_size': 1, 'num_slots': 0}
OF_STEPS = {'rollout': SAMPLES, 'separator': ';', 'max_steps': 4}
LABELS = {
    'completions': {
        'name': 'by_completions', **OF_STEPS, 'names': {'completer': 'policy'}, 'completions': 8,
        'best_of': 1,
    },
    'outcome': {'name': 'by_outcome', **OF_STEPS},
}
AGGREGATIONS = ('least', 'product', 'last')


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `labels`, of `LABELS`; `aggregation`, of `AGGREGATIONS`."""
  arg = parse_arg(arg, smoke=False, labels='completions', aggregation='least')
  if arg.labels not in LABELS or arg.aggregation not in AGGREGATIONS:
    raise ConfigError(
        f'labels={arg.labels!r}, aggregation={arg.aggregation!r}: need one of {", ".join(LABELS)} and one of '
        f'{", ".join(AGGREGATIONS)}'
    )
  config = arithmetic.get_config('', steps=STEPS)
  config.stages = ('sft', 'labelled', 'main')
  config.task = {
      'name': 'chain', 'modulus': 7, 'min_steps': 4, 'max_steps': 4, 'checks': 0, 'held_out_share': 0.2,
  }
  config.models.policy.update(width=48, mlp_size=128, context_length=32)
  config.models.process = {'name': 'value_head'}
  config.decoding.max_tokens = 11
  config.sft.steps, config.sft.stop = SHOWN, ConfigDict()
  config.sft.task = config.task  # the same object: an override reaches all stages
  config.sft.decoding.max_tokens = 11
  config.sft.rollout.batch_size = 64
  config.labelled = {
      **config.sft.to_dict(), 'steps': LABELLED, 'trained': ('process',), 'slow': {'policy': 'policy'},
      'rollout': LABELS[arg.labels], 'algorithm': {'name': 'stepwise'},
  }
  config.labelled.task = config.task
  config.labelled.optimizer.learning_rate = 1e-3
  config.slow = {'process': 'process', 'beginner': 'policy'}
  config.rollout.update(batch_size=128, group_size=8)
  steps = {'separator': ';', 'aggregation': {'name': f'of_steps.{arg.aggregation}'}}
  config.reward = {'name': 'spoken_steps.in_form', 'reward': {'name': 'by_steps', **steps}}
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  config.evals = {
      'steps': {'name': 'graded', 'every': 50, 'problems': 512},
      'head': {
          'name': 'steps.by_head', **steps, 'names': {'policy': 'beginner'}, 'every': STEPS, 'problems': 128,
          'candidates': 8,
      },
  }
  config.checkpoint.every = 200
  config.log.update(headline='eval/steps/accuracy', steps_per_dispatch=25, samples=0)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: a head that learns nothing. Labels by the outcome, of as many rows, are beside it."""
  outcome = 'preferences/chain_shepherd:labels=outcome'
  return Claim(
      paper='',
      says='from completions alone a head learns which steps are right: it tells them better than one that '
      'learnt the outcome on as many rows, and chooses more right answers of eight than that one does by its '
      'last step; a policy that it pays is right more often than before',
      reading=final('eval/head/auc'),
      baseline=Arm('outcome labels', config=outcome),
      asserts=(
          above('outcome labels'),
          above('outcome head', reading=final('eval/head/chosen')),
          reaches(0.3, reading=final('eval/steps/accuracy')),
      ),
      controls=(Arm('no labels', {'labelled.optimizer.learning_rate': 0.0}),),
      beside=(Arm('outcome head', config=f'{outcome},aggregation=last'),),
      minutes=4.0,
  )


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  for stage in (config, config.sft, config.labelled):
    stage.steps = 4
  config.rollout.update(batch_size=16, group_size=4)
  config.sft.rollout.batch_size = config.labelled.rollout.rollout.batch_size = 16
  if 'completions' in config.labelled.rollout:
    config.labelled.rollout.completions = 2
  config.evals.steps.update(every=2, problems=16)
  config.evals.head.update(every=2, problems=8, candidates=2)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
