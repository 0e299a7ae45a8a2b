"""CAPO with critiques by one who knows the steps and errs now and then: sums of digits.

    rlx --config=credit/capo_chain --workdir=runs/capo

Paper: https://arxiv.org/abs/2508.02298. There, a 70-billion-parameter model writes the critiques.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 360 train steps, median of 10 seeds
(worst): 0.5572 (0.3457), 'critiques weigh nothing' 0.564 (0.347). Claimed, and got (95 % interval over
seeds): above 'critiques weigh nothing', got -0.0115 (-0.07467 to 0.0805), the run fails it. 859 CPU-s on 1
cores of a CPU; `rlx reproduce credit/capo_chain`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brpo_chain.on_chains(arg)
  config.reward = {
      'name': 'toys.criticised',
      'modulus': config.task.get_ref('modulus'),
      'votes': 4,
      'error_rate': 0.1,  # a critique and step
  }
  config.algorithm = {
      'name': 'capo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'outcome_weight': 2.0,  # our choice, as is the next
      'process_weight': 1.0,
      'min_votes': 3,  # the majority of four
  }
  if parse_arg(arg, smoke=False, small=False).smoke:
    config.population.size = 1  # three take twice as long to compile
    config.task.update(min_steps=3, max_steps=3)
    config.log.samples = 0
  return config


def claim() -> Claim:
  """Beside GRPO; with critiques that weigh nothing."""
  return Claim(
      paper='S235',
      says='critiques of steps reach more than the outcome alone',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('critiques weigh nothing'),),
      controls=(Arm('critiques weigh nothing', {'algorithm.process_weight': 0.0}),),
      seeds=10,
      minutes=12.0,
  )
