"""DRIVE on sums of uneven difficulty: 8 samples of everything, then 64 of the problems that stay hardest.

    rlx --config=curriculum/drive_arithmetic --workdir=runs/drive

Paper: https://arxiv.org/abs/2511.06307. Which problems are hard is found out in the second stage,
where those that were not tried yet count as the hardest.

Result: it does not show. Mean of the last 10 eval/held_out/accuracy after 380 train steps, median of 5 seeds
(worst): 0.161 (0.1047), 'any problems' 0.153 (0.123). Claimed, and got (95 % interval over seeds): above 'any
problems', got -0.02522 (-0.04733 to 0.002557), the run fails it. 342 CPU-s on 2 cores of a CPU;
`rlx reproduce curriculum/drive_arithmetic`.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.curriculum import mopps_arithmetic


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: those of the quickstart (`smoke`, `digits`, `operators`)."""
  config = mopps_arithmetic.get_config(arg)
  half = config.steps // 2 // config.log.steps_per_dispatch * config.log.steps_per_dispatch
  same = ('stop', 'task', 'decoding', 'reward', 'algorithm', 'updates', 'optimizer', 'trained', 'slow')
  config.broad = {
      **{name: config[name] for name in same},
      'steps': half,
      'rollout': config.rollout.copy_and_resolve_references(),
  }
  config.broad.rollout.scores = {'name': 'controllers.prompts.everywhere'}
  config.stages = ('sft', 'broad', 'main')
  config.steps = half
  config.rollout.num_prompts = max(config.rollout.batch_size // 64, 1)
  config.rollout.num_problems = 256  # of the second stage: a small set
  config.rollout.scores = {'name': 'controllers.prompts.hard_focus', 'unseen': 0.0}
  return config


def claim() -> Claim:
  """A second stage on any problems, in as large groups."""
  return Claim(
      paper='S089',
      says='a second stage on the problems that stay hardest adds to the first',
      argument='small',
      reading=mean('eval/held_out/accuracy', last=10),
      asserts=(above('any problems'),),
      controls=(Arm('any problems', {'rollout.scores': {'name': 'controllers.prompts.everywhere'}}),),
      minutes=8.0,
  )
