"""ROSE where one token decides and answers may be short or long: the fork task, three seeds.

    rlx --config=credit/rose_fork --workdir=runs/rose

Paper: https://arxiv.org/abs/2601.05053. There, a round adds one row to each prompt; here two, so that a group
of eight takes three rounds and not seven.

Tried: twelve letters in front of the decision and none behind it, with which GRPO has twelve tokens of noise
for one that counts: 0.40 beside 0.44, means of three trial seeds (0.27 to 0.50, and 0.31 to 0.55). GRPO first
comes to say the same letters again and again, and its rows then part at the decision, too.

On sparse chains (`brpo_chain.on_sparse_chains`, four trial seeds, meanings by the embedding) it was 0.458 at
2.5e-4 and 0.365 at 5e-4, beside 0.485 by GRPO at 2.5e-4.

Result: it does not show. Mean over the run of eval/held_out/accuracy after 340 train steps, median of 5 seeds
(worst): 0.5533 (0.377), 'GRPO from the prompt' 0.5945 (0.5633). Claimed, and got (95 % interval over seeds):
above 'GRPO from the prompt', got -0.04089 (-0.1698 to 0.0201), the run fails it. 207 CPU-s on 2 cores of a
CPU; `rlx reproduce credit/rose_fork`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.credit import tempo_fork
from rlx.experiments.configs.quickstart.arithmetic import GRPO


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = tempo_fork.get_config(arg)
  config.rollout = {
      'name': 'tree.explore',
      'batch_size': config.rollout.batch_size,
      'group_size': 8,
      'first_rows': 2,  # a prompt
      'rows_per_round': 2,  # a prompt
      'epsilon': 0.5,  # of the new rows begin at the prompt
      'synonyms': ('abcd',),  # filler; () takes the embedding, as the paper does
  }
  config.algorithm = {
      'name': 'rose',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},  # 0.001 in the paper
      'length_power': 0.5,
      'length': config.decoding.max_tokens,
  }
  return config


def claim() -> Claim:
  """Beside GRPO on as many rows."""
  return Claim(
      paper='S084',
      says='rows that branch where meanings part teach faster than rows from the prompt',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('GRPO from the prompt'),),
      baseline=Arm('GRPO from the prompt', config='credit/tempo_fork:small', overrides={'algorithm': GRPO}),
      minutes=8.0,
  )
