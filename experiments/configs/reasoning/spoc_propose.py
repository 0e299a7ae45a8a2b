"""SPOC on sums modulo 7: proposals and verdicts in one pass, SFT on synthetic pairs and then RL, three seeds.

    rlx --config=reasoning/spoc_propose --workdir=runs/spoc

Paper: https://arxiv.org/abs/2506.06923

Result: not run yet.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart)."""
  parse_arg(arg, smoke=False, small=False)
  config = arithmetic.get_config(arg, steps=600)
  config.population.size = 3
  config.task = {
      'name': 'propose',
      'modulus': 7,
      'length': 3,  # digits of a prompt
      'proposals': 3,  # at most, in a completion
      'wrong_share': 0.5,  # of the pairs begin with a wrong proposal
      'held_out_share': 0.1,
  }
  config.sft.task = config.task
  config.sft.stop.at_least = 0.4
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 6  # proposals and verdicts
  config.reward = {'name': 'toys.by_role'}
  config.algorithm = {'name': 'spoc', 'clip_low': 0.2, 'clip_high': 0.2, 'kl': {'name': 'no_kl'}}
  config.evals.turns = {**config.evals.held_out, 'name': 'paid', 'samples': 1}
  return config


def claim() -> Claim:
  """Beside GRPO on the outcome of the row, from the same policy and on as many rows."""
  return Claim(
      paper='S224',
      says='rewarded for their roles verdicts are true more often than where the outcome rewards all turns, '
      'and answers are right as often',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(
          above('the outcome alone', by=-0.02),
          above('the outcome alone', reading=mean('eval/turns/spoc/true_verdicts')),
      ),
      baseline=Arm('the outcome alone', {'algorithm': arithmetic.GRPO}),
      minutes=6.0,
  )
