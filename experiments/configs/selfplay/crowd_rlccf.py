"""RLCCF on ciphers: three models that know different things vote, and each learns the crowd's answer.

    rlx --config=selfplay/crowd_rlccf --workdir=runs/rlccf

A letter stands for a permutation of digits. There are three domains, of two letters each, and in the rows
that a member is shown first one of them, another for each member, is ten times rarer than the other two. Then
nobody sees a solution any more: samples of all members vote, each vote weighted by how much its member agrees
with itself on the problem, and what wins is rewarded. What is read is the share of right samples on held-out
problems of all domains.

Paper: https://arxiv.org/abs/2508.12338

Result: it shows. Final eval/crowd/worst after 240 train steps, median of 5 seeds (worst): 0.8862 (0.7656),
'alone' 0.7227 (0.6196). Claimed, and got (95 % interval over seeds): above 'alone' by 0.1, got 0.1553 (0.1444
to 0.1714); rise of eval/crowd/one: above 0.05, got 0.8944 (0.8169 to 0.9696); rise of eval/crowd/two: above
0.05, got 0.9004 (0.8327 to 0.9686); rise of eval/crowd/three: above 0.05, got 0.9386 (0.8114 to 0.9663); mean
over the run of eval/crowd/margin: above 0, got 0.1097 (0.08732 to 0.1566). 285 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/crowd_rlccf`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, mean, reaches, rise
from rlx.experiments.configs.quickstart import arithmetic

AB, CD, EF = DOMAINS = ('ab', 'cd', 'ef')
KNOWN = {'one': (AB, CD), 'two': (CD, EF), 'three': (EF, AB)}  # domains of most of a member's first rows
NAMES = {name: name for name in KNOWN}
ALONE = {
    'name': 'by_name',
    **{name: {'name': 'labelfree.majority', 'names': {'policy': name}, 'answer_tokens': 0} for name in KNOWN},
}
SHOWN = 80  # steps of the supervised stage


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = arithmetic.get_config('', steps=2 * SHOWN)
  config.task = _ciphers(DOMAINS)
  member = {**config.models.policy, 'num_layers': 1, 'width': 48, 'mlp_size': 96, 'context_length': 8}
  same = {'name': 'copy', 'names': {'of': 'one'}}  # all begin alike; what they are shown first is their own
  config.models = ConfigDict({'one': member, 'two': same, 'three': same})
  config.decoding.max_tokens = 3
  config.rollout = {
      'name': 'crowd.same_problems', 'names': {**NAMES}, 'batch_size': 128, 'group_size': 8, 'num_slots': 0
  }
  config.reward = {
      'name': 'crowd.agreed', 'names': {**NAMES}, 'answer_tokens': 0,
      'weigh': {'name': 'labelfree.self_consistency'},
  }
  config.updates.microbatches = 1
  config.optimizer.update(learning_rate=5e-4, decay_steps=0)
  shown = {**config.optimizer.to_dict(), 'learning_rate': 3e-3}
  config.sft = {
      'steps': SHOWN,
      'stop': ConfigDict(),
      'slow': ConfigDict(),
      'decoding': config.decoding.to_dict(),
      'rollout': {
          'name': 'each',
          **{name: _shown(name, known) for name, known in KNOWN.items()},
      },
      'learners': _learners({'name': 'sft'}, config.updates, shown),
  }
  config.learners = _learners({**arithmetic.GRPO}, config.updates, config.optimizer.to_dict())
  for name in ('algorithm', 'updates', 'optimizer', 'trained'):
    del config[name]
  config.evals = {
      'crowd': {
          'name': 'crowd.members', 'names': {**NAMES}, 'every': SHOWN, 'problems': 256, 'group_size': 8,
          'answer_tokens': 0,
      }
  }
  config.log.headline = 'eval/crowd/worst'
  config.log.samples = 0
  config.checkpoint.every = SHOWN
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: each member is rewarded by its own majority, with the same samples and steps.

  The margin of the vote is that over the best member, when the crowd is formed and at the end.
  """
  rises = [reaches(0.05, reading=rise(f'eval/crowd/{name}')) for name in KNOWN]
  return Claim(
      paper='S045',
      says='members that vote by weights of self-consistency all rise without labels, and above what each '
      'reaches by its own majority; the vote is better than the best of them',
      reading=final('eval/crowd/worst'),
      asserts=(above('alone', by=0.1), *rises, reaches(0.0, reading=mean('eval/crowd/margin'))),
      baseline=Arm('alone', {'reward': ALONE}),
      minutes=3.0,
  )


def _ciphers(domains: tuple[str, ...]) -> dict:
  return {'name': 'envs.ciphers.ciphers', 'modulus': 7, 'letters': 6, 'domains': domains}


def _shown(name: str, known: tuple[str, ...]) -> dict:
  """Solutions for a member, most of them of the domains that it is to know."""
  task = _ciphers(10 * known + DOMAINS)
  return {'name': 'solutions', 'names': {'policy': name}, 'task': task, 'batch_size': 64}


def _learners(algorithm: dict, updates, optimizer: dict) -> dict:
  """A learner for each member, which takes the same step on its own rows."""
  learner = {'updates': updates.to_dict(), 'optimizer': optimizer, 'every': 1}
  named = {
      name: {**learner, 'algorithm': {**algorithm, 'names': {'policy': name}}, 'trained': (name,)}
      for name in KNOWN
  }
  return {'order': tuple(KNOWN), 'shared': (), **named}


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.rollout.update(batch_size=16, group_size=4)
  for name in KNOWN:
    config.sft.rollout[name].batch_size = 8
  config.evals.crowd.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
