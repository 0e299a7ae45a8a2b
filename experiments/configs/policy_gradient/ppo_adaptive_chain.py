"""PPO on sums of one to four digits said step by step, with a λ of GAE for each length.

    rlx --config=policy_gradient/ppo_adaptive_chain --workdir=runs/ppo_adaptive

Paper: VAPO, https://arxiv.org/abs/2504.05118, of which this is the length-adaptive GAE: λ = 1 - 1 / (α l).
There α is 0.05 and rows are thousands of tokens long; here they have 4 to 12, so that λ is 0.5 to 0.83. The
critic's λ is the same here, and 1 there.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 320 train steps, median of 5 seeds
(worst): 0.3133 (0.1553), 'Monte Carlo' 0.413 (0.2653). Claimed, and got (95 % interval over seeds): above
'Monte Carlo', got -0.07822 (-0.2456 to 0.06022), the run fails it. 761 CPU-s on 2 cores of a CPU;
`rlx reproduce policy_gradient/ppo_adaptive_chain`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.policy_gradient import ppo_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in the quickstart)."""
  parse_arg(arg, smoke=False, small=False)
  config = ppo_arithmetic.get_config(arg)
  config.task = config.sft.task = ConfigDict({
      'name': 'chain',
      'modulus': 5,
      'min_steps': 1,
      'max_steps': 4,
      'checks': 0,
      'held_out_share': 0.2,
  })
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 12  # four steps, answer, end token
  by_length = {'name': 'advantages.temporal.lengths_to_lambda', 'alpha': 0.5}
  config.algorithm = {**config.algorithm, 'lambda_': by_length}
  return config


def claim() -> Claim:
  """With a decay of about 1 for every length."""
  return Claim(
      paper='S029',
      says='a decay of GAE by length ends above Monte Carlo returns',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('Monte Carlo'),),
      controls=(Arm('Monte Carlo', {'algorithm.lambda_.alpha': 1000.0}),),
      minutes=8.0,
  )
