"""Knapsack RL on codes of uneven difficulty: 8 samples a problem on average, 2 to 64 by what they may teach.

    rlx --config=curriculum/knapsack_codebook --workdir=runs/knapsack

Paper: https://arxiv.org/abs/2509.25849. The codes (`envs/codebook.py`) teach nothing about each other: SFT
leaves three quarters of them all but known, and a quarter right in one answer of thirty.

Result: it shows. Final eval/held_out/accuracy after 900 train steps, median of 10 seeds (worst): 0.885
(0.8467), 'eight each' 0.8667 (0.85). Claimed, and got (95 % interval over seeds): above 'eight each', got
0.03056 (0.009447 to 0.03889); final eval/hard/passed: above 'eight each', got 0.1539 (0.08889 to 0.2244).
1128 CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/knapsack_codebook`.

After 300 steps, on ten other seeds, it was 0.009 above eight each (-0.005 to 0.022) of all problems, and
0.073 of the hard ones; on five trial seeds 0.022 and 0.083 after 500.

On sums, where easy problems teach what the hard ones need, it did not show: 0.384 (0.2077) beside
0.3603 (0.2387) with eight each where difficulty was uneven, 0.6277 (0.322) beside 0.623 (0.2647) where it was
not; median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.curriculum import mopps_arithmetic
from rlx.experiments.configs.quickstart import arithmetic

RIGHT_SHARES = (0.95, 0.95, 0.95, 0.02)  # of the demonstrations of each level
UNIFORM = {'rollout.allocate': {'name': 'controllers.allocation.uniform'}}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = codes(arg)
  if not parse_arg(arg, smoke=False).smoke:
    config.seed = 200  # the first ones had been looked at
    config.steps, config.optimizer.decay_steps = 500, 480
  high = min(64, config.rollout.batch_size // 2)
  config.rollout.allocate = {'name': 'controllers.allocation.knapsack', 'low': 2, 'high': high}
  return config


def codes(arg: str) -> ConfigDict:
  """Eight samples of any problem: what methods that choose or deal otherwise start from.

  Args:
    arg: `smoke` (seconds, learns nothing).
  """
  smoke = parse_arg(arg, smoke=False).smoke
  config = arithmetic.get_config('small,smoke' if smoke else 'small')
  config.population.size = 5
  _learn_codes(config)
  if not smoke:
    config.sft.steps = 400
  # Without the bonus, answers that are wrong are as sure as right ones after 200 steps, and stay.
  config.optimizer.learning_rate = 1e-3
  config.algorithm.entropy_coef = 0.01
  mopps_arithmetic.draw_evenly(config, num_problems=512)
  return config


def _learn_codes(config: ConfigDict) -> None:
  """The task; how often each level is right after SFT is a matter of its demonstrations."""
  config.task = {
      'name': 'codebook',
      'num_keys': 128,
      'num_levels': len(RIGHT_SHARES),
      'used': tuple(range(len(RIGHT_SHARES))),
      'marks': 5,
      'choices': 8,  # capitals
      'length': 2,  # of a code: one guess in 64 is right
      'held_out_share': 0.2,
  }
  config.sft.task = {**config.task, 'name': 'codebook.half_known', 'right_shares': RIGHT_SHARES}
  config.sft.stop = ConfigDict()  # codes are known by then as well as they are shown
  config.decoding.max_tokens = config.sft.decoding.max_tokens = config.task.length + 1
  config.evals.hard = {
      'name': 'repeated', 'every': config.evals.held_out.every, 'problems': config.evals.held_out.problems,
      'samples': 8, 'task': {**config.task, 'used': (len(RIGHT_SHARES) - 1,)},
  }


def claim() -> Claim:
  """Eight samples of every problem; as many rows."""
  return Claim(
      paper='S159',
      says='samples where they may teach reach more than eight of each problem, at equal rollouts',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('eight each'), above('eight each', reading=final('eval/hard/passed'))),
      baseline=Arm('eight each', UNIFORM),
      seeds=10,
      minutes=6.0,
  )
