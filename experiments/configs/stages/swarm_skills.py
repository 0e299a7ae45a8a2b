"""Swarms of four that share rows, on chains of skills that hardly a group solves.

    rlx --config=stages/swarm_skills --workdir=runs/swarm
    rlx --config=stages/swarm_skills:taken_groups=0 --workdir=runs/alone

The members of the population are nodes, four by four: each samples sixteen groups, and takes eight of the
others', first of those whose rewards differ, in the place of its own last ones. Problems are the `rumours` of
`curriculum/nurl_skills.py`, without hints: a chain of four is guessed once in 2,401 times. The figures of
`metrics.jsonl` are medians over all nodes.

Paper: SAPO, https://arxiv.org/abs/2509.08721.

Tried on the sums of the quickstart, from where hardly any is known (20 nodes, four of eight groups taken):
0.05028 beside 0.03569 in the mean over the run, which they left open; at a third of that rate and over 300
steps two swarms of trial seeds came to 0.12 in the mean over the run and 0.18 in the end, and nodes that are
alone to 0.14 and 0.20. On the codes of `curriculum/brorl_codebook`, where most of a node's own groups teach
nothing, two swarms of trial seeds came to 0.21 after 300 steps, and nodes that are alone to 0.31. On these
chains two swarms of trial seeds came to 0.16 and 0.36, the same nodes alone to 0.085 and 0.10.

Result: it does not show. Mean of 4 nodes and of the last 3 eval/held_out/accuracy after 760 train steps,
median of 5 groups of 4 seeds (worst): 0.1733 (0.03639), 'alone' 0.1503 (0.08444). Claimed, and got (95 %
interval over seeds): above 'alone', got 0.03361 (-0.06121 to 0.3583), the seeds leave it open. 757 CPU-s on 2
cores of a CPU; `rlx reproduce stages/swarm_skills`.

Nodes of a swarm come to nearly the same share (0.19 three of four, or 1.0), so that perhaps what one has
missed all miss. With four groups taken, not eight, four swarms of trial seeds came to 0.11, 0.56, 0.07 and
0.34, the same nodes alone to 0.29, 0.11, 0.12 and 0.05. With eight, and a bonus of 0.01 for entropy, they
came to 0, 0.05, 0.19 and 0.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above
from rlx.experiments.configs.curriculum import nurl_skills
from rlx.experiments.configs.quickstart.arithmetic import GRPO

NODES = 4  # of a swarm
GROUPS = 16  # of a node


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `taken_groups` of sixteen (of two in the smoke run)."""
  arg = parse_arg(arg, smoke=False, taken_groups=GROUPS // 2)
  config = nurl_skills.get_config(f'smoke={arg.smoke},small=True,steps=4,rumours=True')
  config.population.size = NODES if arg.smoke else 5 * NODES
  groups, taken = (2, min(arg.taken_groups, 1)) if arg.smoke else (GROUPS, arg.taken_groups)
  completions = {**nurl_skills.COMPLETIONS, 'batch_size': 8 * groups}
  config.rollout = {
      'name': 'swarm',
      'rollout': completions,
      'swarm_size': NODES,
      'taken_groups': taken,
      'group_size': completions['group_size'],
  }
  config.slow = {'reference': 'policy'}
  config.algorithm = {**GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 1e-3}}
  config.seed = 40  # the first ones had been looked at
  return config


def claim() -> Claim:
  """Beside nodes that are alone. Nodes of a swarm are not independent: one reading is of four of them."""
  of_swarms = lambda at, values: values[:, -3:].mean(axis=1).reshape(-1, NODES).mean(axis=1)
  return Claim(
      paper='S092',
      says='nodes that take half of their groups from three others solve more of what each of them hardly '
      'ever solves than nodes that are alone, at equal rollouts',
      reading=Reading('eval/held_out/accuracy', f'mean of {NODES} nodes and of the last 3', of_swarms),
      asserts=(above('alone'),),
      baseline=Arm('alone', {'rollout.taken_groups': 0}),
      seeds=5 * NODES,
      minutes=10.0,
  )
