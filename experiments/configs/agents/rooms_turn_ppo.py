"""PPO by turns in the rooms of `rooms_grpo`: a critic's value before each turn, GAE from turn to turn.

    rlx --config=agents/rooms_turn_ppo --workdir=runs/rooms_turn_ppo

Paper: https://arxiv.org/abs/2508.04280 and https://arxiv.org/abs/2510.12693

Turns are short here, a letter and its end. With moves spelled as words of four or five letters, tried outside
of this config, four trial seeds were at 0.379, 0.332, 0.395, 0.438 and 0.508 after each 20 steps of RL, by
tokens at 0.293, 0.27, 0.348, 0.438 and 0.48 (medians), with ranges that overlap.

Result: it does not show. Mean over the run of eval/held_out/accuracy after 140 train steps, median of 5 seeds
(worst): 0.4883 (0.3867), 'by tokens' 0.4961 (0.4131). Claimed, and got (95 % interval over seeds): above 'by
tokens', got -0.0179 (-0.02604 to -0.00716), the reverse holds. 731 CPU-s on 2 cores of a CPU;
`rlx reproduce agents/rooms_turn_ppo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (a minute or two)."""
  parse_arg(arg, smoke=False, small=False)
  config = rooms_grpo.get_config(arg)
  config.models.value = {'name': 'value_head'}
  config.trained = ('policy', 'value')
  config.rollout.group_size = 1  # the critic is the baseline
  config.algorithm = {
      'name': 'turn_ppo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'entropy_coef': 0.0,
      'value_coef': 0.5,
      'value_clip': 0.2,
      'discount': 0.99,  # from turn to turn
      'lambda_': 0.95,
  }
  return config


def claim() -> Claim:
  """Beside PPO, whose time passes at tokens."""
  return Claim(
      paper='S201 S153',
      says='advantages from turn to turn learn faster than from token to token',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('by tokens'),),
      baseline=Arm('by tokens', {'algorithm.name': 'ppo'}),
      minutes=12.0,
  )
