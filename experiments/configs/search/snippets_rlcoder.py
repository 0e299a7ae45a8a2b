"""RLCoder: a retriever learns from a frozen generator's perplexity which snippet of a repository to take.

    rlx --config=search/snippets_rlcoder --workdir=runs/snippets

The world is `envs/snippets.py`. A small decoder first learns the language of the repositories (`write`), and
is frozen. The retriever reads files and snippets apart, takes one of four snippets or the empty one, and is
paid how far the log of the generator's perplexity of what comes next falls, less a small price of a snippet.
Nobody tells it which snippet defines what is called, nor whether the file does so itself: `recall` and
`stops_apart` (how much more often nothing is taken where the file is enough) are the evaluation's alone.

Paper: https://arxiv.org/abs/2407.19487. The price is ours: where the file is enough, the small generator's
perplexity is 1.004 with any snippet, so that without a price stopping never paid, and in the first
trial the retriever never stopped. In a second, with a price but little entropy in the loss and advantages
divided by the deviation of their group, it stopped everywhere within 20 steps: a wrong snippet confuses the
generator, and at first most are wrong. Both were changed, and the fall is that of the logarithm, no longer a
share of the perplexity. In a run of five seeds with a generator that had learnt for 360 steps it found all
(recall 1.0) and stopped too little (`stops_apart` 0.46 at the end); one of 20 steps was the better teacher
(1.0 and 0.99). So it learns for 40.

Result: it shows. Mean of the last 3 eval/held_out/recall after 340 train steps, median of 5 seeds (worst): 1
(0.9952), 'a generator that has learnt nothing' 0.1982 (0.1852), 'reward of chance' 0.2092 (0.1996), 'nothing
to stop with' 0.9952 (0.9877). Claimed, and got (95 % interval over seeds): above 0.7, got 0.9993 (0.9961 to
1); above 'nothing to stop with' by -0.1, got 0.004343 (-0.0002233 to 0.009373); mean of the last 3
eval/held_out/stops_apart: above 0.5, got 0.9919 (0.9715 to 0.9967); mean of the last 3
eval/held_out/stops_apart: above 'nothing to stop with' by 0.5, got 0.9919 (0.9715 to 0.9967). 376 CPU-s on 2
cores of a CPU; `rlx reproduce search/snippets_rlcoder`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.quickstart import arithmetic

GENERATOR = {'policy': 'generator'}  # role -> model


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=300)
  config.stages = ('write', 'main')
  config.task = {'name': 'snippets', 'functions': 8, 'candidates': 4, 'empty': 1, 'held_out_share': 0.1}
  config.models = ConfigDict({
      'generator': {**config.models.policy.to_dict(), 'context_length': 16},
      'retriever': {'name': 'retriever', 'width': 16, 'hidden': (64,), 'size': 32},
  })
  config.trained = ('retriever',)
  config.slow = {'generator': 'generator'}  # frozen
  config.decoding.max_tokens = 3  # a body and the end token
  config.rollout = {'name': 'snippets.retrievals', 'batch_size': 256, 'group_size': 8}
  config.reward = {'name': 'fall_of_perplexity', 'price': 0.05}  # nats a token
  config.algorithm = {
      'name': 'rlcoder',
      'baseline': {'name': 'advantages.groups.centred'},
      'clip_low': 0.2,
      'clip_high': 0.2,
      'entropy_coef': 0.05,
  }
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=3e-3, decay_steps=0)
  config.write = {
      'steps': 40,
      'stop': ConfigDict(),
      'trained': ('generator',),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {'name': 'solutions', 'names': GENERATOR, 'batch_size': 128},
      'algorithm': {'name': 'sft', 'names': GENERATOR},
      'updates': config.updates.to_dict(),
      'optimizer': {**config.optimizer.to_dict(), 'learning_rate': 3e-3},
  }
  del config.sft
  config.evals = ConfigDict({'held_out': {'name': 'snippets.retrieval', 'every': 20, 'problems': 1000}})
  config.log.headline = 'eval/held_out/recall'
  if arg.smoke:
    config.steps = config.write.steps = 4
    config.rollout.batch_size = config.write.rollout.batch_size = 16
    config.evals.held_out.update(every=2, problems=16)
    config.checkpoint = {'every': 2, 'keep': 2}
    config.log.update(steps_per_dispatch=2, samples=2)
  return config


def claim() -> Claim:
  """Controls: a generator that has learnt nothing, and a reward of chance.

  Beside: no empty candidate, where something has to be taken.
  """
  apart = mean('eval/held_out/stops_apart', last=3)
  return Claim(
      paper='S117',
      says='paid by the fall in perplexity a retriever finds what is needed without labels, and stops where '
      'the file is enough',
      reading=mean('eval/held_out/recall', last=3),
      asserts=(
          reaches(0.7),
          above('nothing to stop with', by=-0.1),
          reaches(0.5, reading=apart),
          above('nothing to stop with', by=0.5, reading=apart),
      ),
      controls=(
          Arm('a generator that has learnt nothing', {'write.optimizer.learning_rate': 1e-9}),
          Arm('reward of chance', {'reward': {'name': 'of_chance', 'share': 0.5}}),
      ),
      beside=(Arm('nothing to stop with', {'task.empty': 0}),),
      minutes=6.0,
  )
