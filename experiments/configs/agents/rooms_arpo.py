"""ARPO in the rooms of `rooms_scaling`: where a whole group fails, an earlier success stands for a failure.

    rlx --config=agents/rooms_arpo --workdir=runs/rooms_arpo

There are 32 problems, and one success of each is remembered. Nothing is shown at the beginning, and chance
finds a goal seldom. The paper's choice of problems by what the first policy can do is left out.

Paper: https://arxiv.org/abs/2505.16282

Result: it shows. Mean over the run of eval/held_out/accuracy after 60 train steps, median of 5 seeds (worst):
0.205 (0.1675), 'GRPO' 0.15 (0.125). Claimed, and got (95 % interval over seeds): above 'GRPO', got 0.0375
(0.02583 to 0.0625). 201 CPU-s on 2 cores of a CPU; `rlx reproduce agents/rooms_arpo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_scaling


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = rooms_scaling.rooms(arg, steps=60, batch_size=32)
  config.rollout.update(name='replayed_episodes', num_problems=32, success=1.0)
  return config


def claim() -> Claim:
  """Beside GRPO on the same problems: no return is so high that it would be remembered."""
  return Claim(
      paper='S001',
      says='with a remembered success in groups that fail GRPO learns faster, at equal episodes',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('GRPO'),),
      controls=(Arm('GRPO', {'rollout.success': 2.0}),),
      minutes=3.0,
  )
