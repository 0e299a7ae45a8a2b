"""SPAE where solutions check themselves: sums of digits, the last said up to three times, three seeds.

    rlx --config=credit/spae_chain --workdir=runs/spae

Paper: https://arxiv.org/abs/2601.03823. There, five probes of ten tokens for their entropy, and accuracy is
higher as well.

With batches of 256 rows and 300 steps at up to 1.5e-3, five seeds were right no more often: 0.531, without
the potential 0.513 (0.029 in between, -0.036 to 0.072; 2126 CPU-s). On sparse chains (`on_sparse_chains`,
three trial seeds), which are sampled at a temperature at which to say a step again costs accuracy, the
outcome alone says few too many, either: 7.10 steps beside 6.99, and 0.594 are right beside 0.583. What is
left is how soon answers become short. At 1e-3 four trial seeds had fewer steps, at 3e-4 three, and were right
as often.

Result: it shows. Mean of the last 12 eval/held_out/steps after 200 train steps, median of 10 seeds (worst):
4.063 (4.147), 'no potential' 4.606 (5.61). Claimed, and got (95 % interval over seeds): below 'no potential',
got 0.6222 (0.4119 to 1.042); mean of the last 12 eval/held_out/accuracy: above 'no potential' by -0.05, got
0.0261 (0.004446 to 0.04281). 719 CPU-s on 1 cores of a CPU; `rlx reproduce credit/spae_chain`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `small` (minutes: three digits modulo five, 64 rows, 120
  steps)."""
  config = brpo_chain.on_chains(arg, checks=2)
  if parse_arg(arg, smoke=False, small=False).small:
    config.steps, config.rollout.batch_size, config.updates.microbatches = 120, 64, 1
    config.optimizer.update(learning_rate=3e-4, decay_steps=0)
    config.evals.held_out = {'name': 'graded', 'every': 10, 'problems': 256}
    config.log.steps_per_dispatch = 10
  config.reward = {'name': 'verifier'}
  config.algorithm = {
      'name': 'spae',
      'clip_low': 0.2,
      'clip_high': 0.28,
      'separator': ';',
      'probe': '#',
      'probe_tokens': 1,  # an answer is one digit
      'probe_samples': 1,  # whose entropy does not depend on what is drawn
      'max_steps': 6,
      'saturated': 0.5,  # our choice
      'alpha': 0.5,
      'xi': 0.5,
  }
  return config


def claim() -> Claim:
  """With a potential that weighs nothing; a chain needs four steps, of which the answer is one."""
  steps = mean('eval/held_out/steps', last=12, lower=True)
  return Claim(
      paper='S096',
      says='where steps behind the one that found the answer lose credit, answers become short sooner, and '
      'are right as often',
      argument='small',
      reading=steps,
      asserts=(
          above('no potential'),
          above('no potential', by=-0.05, reading=mean('eval/held_out/accuracy', last=12)),
      ),
      baseline=Arm('no potential', {'algorithm.alpha': 0.0, 'algorithm.xi': 0.0}),
      seeds=10,
      minutes=6.0,
  )
