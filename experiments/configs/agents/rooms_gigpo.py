"""GiGPO in the rooms of `rooms_grpo`: turns that began in the same state are compared as well.

    rlx --config=agents/rooms_gigpo --workdir=runs/rooms_gigpo

Paper: https://arxiv.org/abs/2505.10978 (w = 1, as there; γ 0.95)

Result: it shows. Mean over the run of eval/held_out/accuracy after 140 train steps, median of 10 seeds
(worst): 0.4736 (0.3789), 'GRPO' 0.4468 (0.3125). Claimed, and got (95 % interval over seeds): above 'GRPO',
got 0.02686 (0.002443 to 0.04297). 673 CPU-s on 1 cores of a CPU; `rlx reproduce agents/rooms_gigpo`.

Five seeds left it open (-0.005 to 0.033); ten were run then.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (a minute or two)."""
  parse_arg(arg, smoke=False, small=False)
  config = rooms_grpo.get_config(arg)
  config.algorithm = {
      'name': 'gigpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'discount': 0.95,  # from turn to turn
      'step_weight': 1.0,
      'scaled': True,  # by deviations, of episodes and of steps
  }
  return config


def claim() -> Claim:
  """The control does not compare turns, and is GRPO."""
  return Claim(
      paper='S156',
      says='comparing turns that began in the same state learns faster than comparing episodes alone',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('GRPO'),),
      controls=(Arm('GRPO', {'algorithm.step_weight': 0.0}),),
      seeds=10,
      minutes=20.0,
  )
