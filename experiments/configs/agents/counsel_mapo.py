"""MAPO with a user whose mood is to be lifted: every turn has a reward, and turns are compared in two ways.

    rlx --config=agents/counsel_mapo --workdir=runs/counsel_mapo

The world is `envs/worlds/counsel.py`; every other wrong reply lowers the mood, so a little imitation comes
first.

Result: it shows. Mean over the run of eval/held_out/accuracy after 80 train steps, median of 10 seeds
(worst): 0.6749 (0.5859), 'groups alone' 0.6632 (0.5026). Claimed, and got (95 % interval over seeds): above
'groups alone', got 0.009982 (0.001157 to 0.0343). 239 CPU-s on 1 cores of a CPU;
`rlx reproduce agents/counsel_mapo`.

What is gained is a hundredth; on five trial seeds each was above, by 0.002 to 0.012. With groups of eight and
half of the wrong replies forgiven both came to 1 within 120 steps.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo

TURNS = {'turn_tokens': 2, 'max_turns': 12}  # a letter and the end token


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (a minute or two: groups of four, 60 steps)."""
  asked = parse_arg(arg, smoke=False, small=False)
  small = asked.small and not asked.smoke
  config = rooms_grpo.get_config(arg, steps=200)
  config.task = config.sft.task = {
      'name': 'counsel',
      'moods': 6,
      'needs': 6,
      'replies': 6,
      'patience': 0.2 if small else 0.5,  # a wrong reply is forgiven as often
      'held_out_share': 0.1,
  }
  config.decoding.max_tokens = config.sft.decoding.max_tokens = 64
  config.algorithm = {
      'name': 'mapo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'discount': 0.9,  # from turn to turn
      'batch_weight': 0.5,
  }
  if small:
    config.steps, config.sft.steps, config.rollout.group_size = 60, 20, 4
    config.evals.held_out.every = config.log.steps_per_dispatch = 10
  return config


def claim() -> Claim:
  """Beside turns that are compared with the same turn of others alone."""
  return Claim(
      paper='S185',
      says='turns compared with the batch as well learn faster than turns compared within their group alone',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('groups alone'),),
      baseline=Arm('groups alone', {'algorithm.batch_weight': 0.0}),
      seeds=10,
      minutes=4.0,
  )
