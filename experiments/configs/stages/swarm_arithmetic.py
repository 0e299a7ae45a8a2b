"""Swarms of four that share rows: small sums, of which hardly any is known before.

    rlx --config=stages/swarm_arithmetic:small --workdir=runs/swarm
    rlx --config=stages/swarm_arithmetic:small,taken_groups=0 --workdir=runs/alone

The members of the population are nodes, four by four: each samples eight groups, and takes four of the
others' in the place of its own last ones. The figures of `metrics.jsonl` are medians over all nodes.

Paper: SAPO, https://arxiv.org/abs/2509.08721.

Result: it does not show. Mean over the run of eval/held_out/accuracy after 220 train steps, median of 20
seeds (worst): 0.05028 (0.008889), 'alone' 0.03569 (0.007222). Claimed, and got (95 % interval over seeds):
above 'alone', got 0.002777 (-0.006977 to 0.01206), the seeds leave it open. 393 CPU-s on 2 cores of a CPU;
`rlx reproduce stages/swarm_arithmetic`.

Nodes hardly learn at this rate. At a third of it and over 300 steps, where they do, two swarms of trial seeds
came to 0.12 in the mean over the run and 0.18 in the end, and nodes that are alone to 0.14 and 0.20. On the
codes of `curriculum/brorl_codebook`, where most of a node's own groups teach nothing, two swarms of trial
seeds came to 0.21 after 300 steps, and nodes that are alone to 0.31.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.quickstart import arithmetic

NODES = 4  # of a swarm


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing), `small` (operands of 1 to 30, 160 steps); `taken_groups`
  of eight."""
  arg = parse_arg(arg, smoke=False, small=False, taken_groups=4)
  config = arithmetic.get_config(f'smoke={arg.smoke},small={arg.small}', steps=200)
  config.population.size = NODES if arg.smoke else 5 * NODES
  completions = {**config.rollout, 'batch_size': 64}
  config.rollout = {
      'name': 'swarm',
      'rollout': completions,
      'swarm_size': NODES,
      'taken_groups': arg.taken_groups,
      'group_size': completions['group_size'],
  }
  config.updates.microbatches = 1
  config.sft.steps = 4 if arg.smoke else 60
  if arg.small:
    config.steps = 160
  return config


def claim() -> Claim:
  """Beside nodes that are alone. Nodes of a swarm are not independent: the interval is too narrow."""
  return Claim(
      paper='S092',
      says='nodes that take half of their groups from three others end above nodes that are alone',
      argument='small',
      reading=mean('eval/held_out/accuracy'),
      asserts=(above('alone'),),
      baseline=Arm('alone', {'rollout.taken_groups': 0}),
      seeds=5 * NODES,
      minutes=8.0,
  )
