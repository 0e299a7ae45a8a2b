"""TEMPO where one token decides: the quickstart's decoder on the fork task, three seeds.

    rlx --config=credit/tempo_fork --workdir=runs/tempo

Paper: https://arxiv.org/abs/2509.18314

Result: it does not show. Mean over the run of eval/held_out/accuracy after 340 train steps, median of 5 seeds
(worst): 0.5537 (0.5302), 'GRPO' 0.5945 (0.5633). Claimed, and got (95 % interval over seeds): above 'GRPO',
got -0.05816 (-0.08296 to 0.03143), the run fails it. 157 CPU-s on 2 cores of a CPU;
`rlx reproduce credit/tempo_fork`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '', *, before: int = 2, after: int = 12) -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (64 rows, 300 steps).

  `before` and `after` are for the configs that start from this one.
  """
  small = parse_arg(arg, smoke=False, small=False).small
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.task = {
      'name': 'fork',
      'choices': 8,  # what the decision is among
      'length': 4,  # digits of a prompt, of which the first counts
      'before': before,  # letters in front of the decision
      'after': after,  # at most so many behind it
      'letters': 4,
      'held_out_share': 0.1,
  }
  # SFT teaches the form: with the right digits it would leave nothing to learn.
  config.sft.task = {**config.task, 'name': 'fork.undecided', 'right_share': 0.0}
  config.sft.stop.at_least = 0.08  # of the held-out problems, an eighth is right by chance
  config.decoding.max_tokens = config.sft.decoding.max_tokens = before + after + 2  # with the end token
  if small:  # few enough rows that how well credit is assigned counts
    config.rollout.batch_size = 64
    config.updates.microbatches = 1
    config.evals.held_out.every = config.log.steps_per_dispatch = 10
  config.algorithm = {'name': 'tempo', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'no_kl'}}
  return config


def claim() -> Claim:
  """Beside GRPO on as many rows, which is the mechanism off as well."""
  return Claim(
      paper='S166',
      says='values of prefixes from the tree of a group teach faster than GRPO where one token decides',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'algorithm': arithmetic.GRPO}),
      minutes=6.0,
  )
