"""ScalingInter-RL in small rooms: episodes are short at first, and longer from stage to stage. RL alone.

    rlx --config=agents/rooms_scaling --workdir=runs/rooms_scaling

The world is `envs/worlds/rooms.py` with 2 x 3 rooms and actions of one token; chance finds the goal now and
then, so that no supervision is needed.

Paper: https://arxiv.org/abs/2509.08755

Result: it does not show. Mean of the last 2 eval/held_out/accuracy after 60 train steps, median of 5 seeds
(worst): 0.19 (0.17), 'always long' 0.195 (0.08), 'always short' 0.165 (0.155). Claimed, and got (95 %
interval over seeds): above 'always long', got 0.005 (-0.075 to 0.06333), the seeds leave it open; above
'always short', got 0.015 (-0.003333 to 0.04333), the seeds leave it open. 271 CPU-s on 2 cores of a CPU;
`rlx reproduce agents/rooms_scaling`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo

LONG = 12  # turns, and of all evaluations
STEPS = 60


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  parse_arg(arg, smoke=False)
  config = rooms_grpo.get_config(arg, steps=STEPS)
  config.stages = ('main',)
  del config['sft']
  config.task.update(width=3, height=2, loops=1, num_mazes=8)
  config.models.policy.update(width=32, mlp_size=64, context_length=76)  # 20 thousand parameters
  config.decoding.max_tokens = 64  # said and read, behind the prompt
  config.rollout.turn_tokens = 1
  config.rollout.batch_size = min(config.rollout.batch_size, 32)
  config.rollout.max_turns = {
      'name': 'controllers.schedules.of_stage',
      'values': (4, 8, LONG),
      'boundaries': (STEPS // 4, STEPS // 2),
  }
  config.optimizer.learning_rate = 3e-3
  config.optimizer.warmup_steps = 10
  problems = min(config.evals.held_out.problems, 100)
  config.evals.held_out.update(turn_tokens=1, max_turns=LONG, problems=problems)
  return config


def claim() -> Claim:
  """Beside as many episodes that are as long, or as short, all the time."""
  fixed = lambda turns: {
      'rollout.max_turns': {'name': 'controllers.schedules.constant', 'value': turns}
  }
  return Claim(
      paper='S088',
      says='a horizon that grows in stages ends above a long one and above a short one, at equal episodes',
      reading=mean('eval/held_out/accuracy', last=2),
      asserts=(above('always long'), above('always short')),
      baseline=Arm('always long', fixed(LONG)),
      beside=(Arm('always short', fixed(4)),),
      minutes=5.0,
  )
