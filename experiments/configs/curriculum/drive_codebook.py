"""DRIVE on codes of uneven difficulty: 8 samples of everything, then 64 of problems that stay hard.

    rlx --config=curriculum/drive_codebook --workdir=runs/drive

Paper: https://arxiv.org/abs/2511.06307. Which problems are hard is what the first stage saw of them.

Result: it shows in part. Final eval/held_out/accuracy after 680 train steps, median of 10 seeds (worst):
0.8033 (0.7567), 'any problems' 0.8417 (0.8067). Claimed, and got (95 % interval over seeds): above 'any
problems', got -0.02167 (-0.06166 to 0.01333), the run fails it; final eval/hard/passed: above 'any problems',
got 0.1683 (0.1333 to 0.2489). 896 CPU-s on 2 cores of a CPU; `rlx reproduce curriculum/drive_codebook`.

Problems are drawn by how often they failed. With batches of the four that failed most the others are
forgotten: eight of ten seeds ended below the 0.77 that SFT left, two of them below 0.15, where any problems
end at 0.80 to 0.86. One of four problems drawn from all was tried on five trial seeds: 0.79 (hard ones 0.54),
by failures alone 0.81 (0.58), any problems 0.83 (0.44).

On sums, where easy problems teach what the hard ones need, it did not show: 0.161 (0.1047) beside
0.153 (0.123) with any problems, median and worst of five seeds.
"""

from ml_collections import ConfigDict

from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.curriculum import knapsack_codebook


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = knapsack_codebook.codes(arg)
  half = config.steps // 2 // config.log.steps_per_dispatch * config.log.steps_per_dispatch
  same = ('stop', 'task', 'decoding', 'reward', 'algorithm', 'updates', 'optimizer', 'trained', 'slow')
  config.broad = {
      **{name: config[name] for name in same},
      'steps': half,
      'rollout': config.rollout.copy_and_resolve_references(),
  }
  config.stages = ('sft', 'broad', 'main')
  config.steps = half
  config.takes = ('statistics',)  # of the first stage
  config.rollout.num_prompts = max(config.rollout.batch_size // 64, 1)
  config.rollout.scores = {'name': 'controllers.prompts.hard_focus', 'unseen': 0.0}
  config.rollout.draw = {'name': 'controllers.prompts.without_replacement'}
  return config


def claim() -> Claim:
  """A second stage on any problems, in as large groups."""
  return Claim(
      paper='S089',
      says='a second stage on problems drawn by how often they failed adds to the first',
      reading=final('eval/held_out/accuracy'),
      asserts=(above('any problems'), above('any problems', reading=final('eval/hard/passed'))),
      controls=(Arm('any problems', {'rollout.scores': {'name': 'controllers.prompts.everywhere'}}),),
      seeds=10,
      minutes=8.0,
  )
