"""SPOC on sums modulo 7: proposals and verdicts in one pass, SFT on synthetic pairs and then RL, three seeds.

    rlx --config=reasoning/spoc_propose --workdir=runs/spoc

Paper: https://arxiv.org/abs/2506.06923

Result: it shows in part. Mean over the run of eval/held_out/accuracy after 520 train steps, median of 5 seeds
(worst): 0.4148 (0.2589), 'the outcome alone' 0.411 (0.2681). Claimed, and got (95 % interval over seeds):
above 'the outcome alone' by -0.02, got -0.003337 (-0.02531 to 0.04259), the seeds leave it open; mean over
the run of eval/turns/spoc/true_verdicts: above 'the outcome alone', got 0.003727 (-0.01841 to 0.06627), the
seeds leave it open; mean of the last 10 eval/turns/spoc/stopped_when_right: above 'the outcome alone', got
0.8662 (0.7551 to 0.9999); mean over the run of eval/turns/spoc/corrected: above 0, got 0.04831 (0.04276 to
0.0549). 268 CPU-s on 1 cores of a CPU; `rlx reproduce reasoning/spoc_propose`.

The means are over all of the run, of which the 220 steps of SFT are the same for both. In the last
evaluation 76, 51, 75, 68 and 84 % of the verdicts are true, with the outcome alone 74, 60, 69, 54 and 67 %,
whose policies learn to say all three proposals. SPOC's need no second one in the end: none of 300 rows is
corrected then on four of five seeds. That rows stop and that some are corrected was added to the claim after
it had been run, for the paper says both.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
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
      'rows stop when they are right, wrong proposals are corrected, and answers are right as often',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(
          above('the outcome alone', by=-0.02),
          above('the outcome alone', reading=mean('eval/turns/spoc/true_verdicts')),
          above('the outcome alone', reading=mean('eval/turns/spoc/stopped_when_right', last=10)),
          reaches(0.0, reading=mean('eval/turns/spoc/corrected')),
      ),
      baseline=Arm('the outcome alone', {'algorithm': arithmetic.GRPO}),
      minutes=6.0,
  )
