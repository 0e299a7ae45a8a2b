"""Math-Shepherd: a head learns which steps are right from completions alone, and pays a policy for them.

    rlx --config=preferences/chain_shepherd --workdir=runs/shepherd
    rlx --config=preferences/chain_shepherd:labels=outcome,aggregation=last --workdir=runs/outcome_head

Sums modulo four, said step by step (`envs/chain.py`). The policy is shown solutions (`sft`), and then samples
at a temperature at which two of three are right, which is the noise of this toy. From the end of each step of
what it says then it goes on four times, and a head on a copy of it learns how many of these are right
(`labelled`): nobody grades a step. In the main stage the policy learns by GRPO, held by a KL, from the least
of the numbers that the head says of its steps. Who says fewer steps has fewer that could be wrong, so a row
without a solution's form is worth nothing (`rewards.spoken_steps.in_form`).

Before anything was claimed, one seed was tried five times. With sums modulo seven the head hardly learns in
150 to 300 steps: of eight samples it chooses right ones in 0.42 to 0.61, where 0.52 to 0.57 are right. Here
it does so in 0.81, where 0.62 are right. In all five the policy that it pays pleases the frozen head and
forgets the sums: from 0.68 to 0.37 in 50 steps as here, half of that by wrong steps. So nothing is claimed of
the main stage.

Paper: https://arxiv.org/abs/2312.08935

Result: it shows. Final eval/head/chosen after 350 train steps, median of 5 seeds (worst): 0.7734 (0.7031),
'outcome head' 0.6797 (0.6562), 'no labels' 0.6094 (0.5703). Claimed, and got (95 % interval over seeds):
above 'outcome head', got 0.07291 (0.04427 to 0.1042); final eval/head/gain: above 0.05, got 0.1764 (0.1247 to
0.1973). 429 CPU-s on 2 cores of a CPU; `rlx reproduce preferences/chain_shepherd`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.errors import ConfigError
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic

SHOWN, LABELLED, STEPS = 100, 200, 50
SAMPLES = {'name': 'prompts.completions', 'batch_size': 64, 'group_size': 1, 'num_slots': 0}
OF_STEPS = {'rollout': SAMPLES, 'separator': ';', 'max_steps': 4}
LABELS = {
    'completions': {
        'name': 'by_completions', **OF_STEPS, 'names': {'completer': 'policy'}, 'completions': 4,
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
  config.seed = 100  # far from the one that the setting was found with
  config.stages = ('sft', 'labelled', 'main')
  config.task = {
      'name': 'chain', 'modulus': 4, 'min_steps': 4, 'max_steps': 4, 'checks': 0, 'held_out_share': 0.2,
  }
  config.models.policy.update(width=48, mlp_size=128, context_length=32)
  config.models.process = {'name': 'value_head'}
  config.decoding.update(max_tokens=11, temperature=1.5)
  config.sft.steps, config.sft.stop = SHOWN, ConfigDict()
  config.sft.task = config.task  # the same object: an override reaches all stages
  config.sft.decoding.max_tokens = 11
  config.sft.rollout.batch_size = 64
  config.labelled = {
      **config.sft.to_dict(), 'steps': LABELLED, 'trained': ('process',), 'slow': {'policy': 'policy'},
      'decoding': config.decoding.to_dict(), 'rollout': LABELS[arg.labels], 'algorithm': {'name': 'stepwise'},
  }
  config.labelled.task = config.task
  config.labelled.optimizer.learning_rate = 2e-3
  config.slow = {'process': 'process', 'reference': 'policy'}
  config.rollout.update(batch_size=128, group_size=8)
  steps = {'separator': ';', 'aggregation': {'name': f'of_steps.{arg.aggregation}'}}
  config.reward = {'name': 'spoken_steps.in_form', 'reward': {'name': 'by_steps', **steps}}
  config.algorithm.kl = {'name': 'kl_in_loss', 'coef': 0.04}  # the paper's
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  config.evals = {
      'steps': {'name': 'graded', 'every': 50, 'problems': 256},
      'head': {
          'name': 'steps.by_head', **steps, 'names': {'policy': 'reference'}, 'every': STEPS, 'problems': 128,
          'candidates': 8,
      },
  }
  config.checkpoint.every = 200
  config.log.update(headline='eval/steps/accuracy', steps_per_dispatch=25, samples=0)
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: a head that learns nothing, and says the same of all."""
  nothing = {'labelled.optimizer.learning_rate': 0.0, 'labelled.rollout.completions': 1}
  return Claim(
      paper='',
      says='from completions alone a head learns which steps are right: of eight samples it chooses right '
      'ones more often than chance does, and more often than a head that learnt the outcome of as many rows '
      'does by its last step',
      reading=final('eval/head/chosen'),
      baseline=Arm('outcome head', config='preferences/chain_shepherd:labels=outcome,aggregation=last'),
      asserts=(above('outcome head'), reaches(0.05, reading=final('eval/head/gain'))),
      controls=(Arm('no labels', nothing),),
      minutes=8.0,
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
