"""SPAE where solutions check themselves: sums of digits, the last said up to three times, three seeds.

    rlx --config=credit/spae_chain --workdir=runs/spae

Paper: https://arxiv.org/abs/2601.03823. There, five probes of ten tokens for their entropy.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 360 train steps, median of 5 seeds
(worst): 0.5313 (0.4027), 'no potential' 0.513 (0.4573). Claimed, and got (95 % interval over seeds): above
'no potential', got 0.02933 (-0.03566 to 0.07189), the seeds leave it open. 2126 CPU-s on 2 cores of a CPU;
`rlx reproduce credit/spae_chain`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.reasoning import brpo_chain


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = brpo_chain.on_chains(arg, checks=2)
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
  """With a potential that weighs nothing."""
  return Claim(
      paper='S096',
      says='steps credited with what they add to the answer reach more than the outcome alone',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('no potential'),),
      controls=(Arm('no potential', {'algorithm.alpha': 0.0, 'algorithm.xi': 0.0}),),
      minutes=10.0,
  )
