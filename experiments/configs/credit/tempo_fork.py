"""TEMPO where one token decides: the quickstart's decoder on the fork task, three seeds.

    rlx --config=credit/tempo_fork:few --workdir=runs/tempo

With `few` all rows of a group part where it is decided, for nothing stands in front of it. With two letters
of four in front (`small`), most rows have parted before, by a letter that decides nothing, and the
differences of a tree of eight rows are there: it did not show (0.554 beside 0.595 by GRPO, median of five
seeds). Without them, 64 rows at 1.5e-3 leave nothing to win: on three trial seeds both had it after some 100
steps. With 16 rows three trial seeds had 0.458 beside 0.434, which ten others do not bear out. Nor is there
more to see on sparse chains (`brpo_chain.on_sparse_chains`, means of four trial seeds): 0.491 beside 0.485 by
GRPO, both at 2.5e-4, and 0.441 at 5e-4.

Paper: https://arxiv.org/abs/2509.18314

Result: it does not show. Mean over the run of eval/held_out/accuracy after 230 train steps, median of 10
seeds (worst): 0.3851 (0.1475), 'GRPO' 0.4054 (0.2235). Claimed, and got (95 % interval over seeds): above
'GRPO', got -0.009425 (-0.04019 to 0.03014), the run fails it. 179 CPU-s on 1 cores of a CPU;
`rlx reproduce credit/tempo_fork`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '', *, before: int = 2, after: int = 12) -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (64 rows, 300 steps); `few` (16 rows, 200 steps,
  and nothing in front of the decision).

  `before` and `after` are for the configs that start from this one.
  """
  arg = parse_arg(arg, smoke=False, small=False, few=False)
  before = 0 if arg.few else before
  config = arithmetic.get_config(f'smoke={arg.smoke},small={arg.small or arg.few}', steps=600)
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
  if arg.small or arg.few:  # few enough rows that how well credit is assigned counts
    config.rollout.batch_size = 64
    config.updates.microbatches = 1
    config.evals.held_out.every = config.log.steps_per_dispatch = 10
  if arg.few:
    config.steps, config.rollout.batch_size = 200, 16
    config.optimizer.learning_rate = 1e-3
  config.algorithm = {'name': 'tempo', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'no_kl'}}
  return config


def claim() -> Claim:
  """Beside GRPO on as many rows, which is the mechanism off as well."""
  return Claim(
      paper='S166',
      says='values of prefixes from the tree of a group teach faster than GRPO where one token decides',
      argument='few',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('GRPO'),),
      baseline=Arm('GRPO', {'algorithm': arithmetic.GRPO}),
      seeds=10,
      minutes=4.0,
  )
