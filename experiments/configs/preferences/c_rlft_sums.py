"""C-RLFT on sums: a tenth is an expert's, the rest is careless; marks and weights tell them apart.

    rlx --config=preferences/c_rlft_sums --workdir=runs/c_rlft

The expert has answered few of the problems (`rlx/envs/qualities.py`); the careless one, who never carries,
has answered all. Held-out accuracy is of problems that nobody has answered, under the expert's mark.

Where nothing is carried, in half of the problems, the careless one is right. After 400 steps it does not
show: 0.37 (worst of five seeds 0.15), experts' answers alone 0.45, all of them alike 0.51; two functions take
longer to learn than one, and a tenth of the rows teach the second. Sizes tried before: an expert who had
answered a tenth of the problems, with operands up to 30 and 64 rows, 16 % after 800 steps.

Paper: https://arxiv.org/abs/2309.11235

Result: it shows. Final eval/held_out/accuracy after 1000 train steps, median of 10 seeds (worst): 0.8983
(0.8167), 'expert only' 0.6767 (0.53), 'plain SFT' 0.52 (0.5133). Claimed, and got (95 % interval over seeds):
above 'plain SFT' by 0.1, got 0.3794 (0.3444 to 0.4156); above 'expert only' by 0.05, got 0.2411 (0.18 to
0.2978). 812 CPU-s on 1 cores of a CPU; `rlx reproduce preferences/c_rlft_sums`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic

EVEN = {'algorithm.class_weights': (1.0, 1.0)}
UNTOLD = {'task.marks': 'ee'}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  smoke = parse_arg(arg, smoke=False).smoke
  config = arithmetic.get_config('smoke' if smoke else 'small', steps=1000)
  config.population.size = 2 if smoke else 5
  config.stages = ('main',)
  config.task = {
      'name': 'careless_sums', 'max_operand': 60, 'expert_share': 0.1, 'expert_problems': 0.3, 'marks': 'ec',
      'held_out_share': 0.1,
  }
  config.rollout = {'name': 'solutions', 'batch_size': 16 if smoke else 128}
  config.algorithm = {'name': 'c_rlft', 'class_weights': (1.0, 0.1)}
  config.steps = 4 if smoke else 1000
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=3e-3, decay_steps=980)
  config.evals.held_out.every = 2 if smoke else 100
  for name in ('sft', 'reward'):
    del config[name]
  return config


def claim() -> Claim:
  """Neither marks nor weights, and no careless data."""
  return Claim(
      paper='S148',
      says='conditioned on its source, data of mixed quality teach more than all of it alike, and more '
      "than the expert's alone",
      reading=final('eval/held_out/accuracy'),
      asserts=(above('plain SFT', by=0.1), above('expert only', by=0.05)),
      baseline=Arm('expert only', {**EVEN, 'task.expert_share': 1.0}),
      controls=(Arm('plain SFT', {**EVEN, **UNTOLD}),),
      seeds=10,
      minutes=12.0,
  )
