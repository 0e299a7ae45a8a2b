"""SimpleTIR in the library of `library_grpo`: no episode counts that has a turn without a call or an answer.

    rlx --config=agents/library_simple_tir --workdir=runs/library_simple_tir

Paper: https://arxiv.org/abs/2509.02479

Result: it does not show. Mean over the run of eval/sampled/accuracy after 100 train steps, median of 5 seeds
(worst): 0.01823 (0.01042), 'GRPO' 0.09115 (0.05013). Claimed, and got (95 % interval over seeds): above
'GRPO' by -0.02, got -0.06944 (-0.1144 to -0.04232), the reverse holds; mean over the run of
eval/sampled/understood: above 'GRPO', got -0.2884 (-0.3739 to -0.1219), the reverse holds. 452 CPU-s on 2
cores of a CPU; `rlx reproduce agents/library_simple_tir`.

At a fifth of the rate, and with all of the episodes, GRPO came to 0.74 to 0.95 of sampled answers in 240
steps, five trial seeds, and without void turns to 0.06 to 0.11: what is left out of a batch is not unlearnt.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import library_grpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (as in `library_grpo`)."""
  config = library_grpo.get_config(arg)
  config.rollout = {'name': 'without_void_turns', 'rollout': config.rollout.to_dict()}
  return config


def claim() -> Claim:
  """Without the filter it is GRPO, on the same episodes."""
  return Claim(
      paper='S018',
      says='without the episodes that have a void turn, GRPO learns at least as fast, and says fewer of them',
      argument='small',
      reading=mean('eval/sampled/accuracy'),
      asserts=(above('GRPO', by=-0.02), above('GRPO', reading=mean('eval/sampled/understood'))),
      baseline=Arm('GRPO', config='agents/library_grpo:small'),
      minutes=6.0,
  )
