"""SUPO in a corridor that is longer than the context: the policy sums up, forgets the rest, and walks on.

    rlx --config=agents/corridor_supo --workdir=runs/supo

Six rooms in a row, a key in one of them and a goal in another (`envs/worlds/rooms.py`). The context has room
for four or five turns; then the policy is asked for a summary of two tokens, and goes on behind it, twice at
most. Imitation, in contexts that are long enough, comes first. Whether it matters what the summary says was
not tried: the observation that is read behind it may be enough in a corridor.

Paper: https://arxiv.org/abs/2510.06727

Result: it shows. Mean of the last 3 eval/held_out/accuracy after 160 train steps, median of 5 seeds (worst):
0.5 (0.42), 'cut off' 0.02 (0.003333). Claimed, and got (95 % interval over seeds): above 'cut off' by 0.1,
got 0.4767 (0.4 to 0.4967). 296 CPU-s on 2 cores of a CPU; `rlx reproduce agents/corridor_supo`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import rooms_grpo

TURNS = {'turn_tokens': 1, 'max_turns': 12}
ROOM = 24  # tokens behind the prompt
WHOLE = {'name': 'rollout.contexts.whole'}
EPISODES = 32  # a step


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = rooms_grpo.get_config(f'smoke={arg.smoke}', steps=100)
  summary = {'name': 'rollout.contexts.summary', 'rows': 3, 'marker': '>', 'tokens': 2}
  config.task.update(height=1, width=6, num_mazes=1, loops=0, num_keys=1, held_out_share=0.2)
  config.models.policy.update(width=32, mlp_size=64, context_length=76)  # 20 thousand parameters
  config.decoding.max_tokens = ROOM
  config.sft.decoding.max_tokens = 64  # for all turns
  config.rollout = {
      'name': 'turns.rewritten_episodes',
      'batch_size': summary['rows'] * (8 if arg.smoke else EPISODES),
      'group_size': 8,
      'num_slots': 0,
      'turn_tokens': TURNS['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TURNS['max_turns']},
      'context': summary,
  }
  config.algorithm = {
      'name': 'policy_gradient',
      'baseline': {
          'name': 'advantages.turns.of_trajectories',
          'inner': {'name': 'advantages.groups.normalised'},
      },
      'weight': {'name': 'losses.weights.equal'},
      'level': {'name': 'losses.ratios.ratio'},
      'surrogate': {'name': 'losses.policy.clipped', 'clip_low': 0.2, 'clip_high': 0.2},
      'reduction': {'name': 'reductions.without_truncated', 'reduction': {'name': 'reductions.token_mean'}},
      'kl': {'name': 'no_kl'},
      'kl_estimator': {'name': 'losses.regularizers.kl_k3'},
      'entropy_coef': 0.0,
      'correction': {'name': 'losses.corrections.none'},
      'correction_level': {'name': 'losses.ratios.ratio'},
  }
  config.optimizer.learning_rate = 3e-3
  config.optimizer.warmup_steps = 10
  config.sft.rollout.update(TURNS)
  config.evals.held_out.update(
      TURNS, name='turns.rewritten_episodes', context=summary, num_slots=0,
      problems=min(config.evals.held_out.problems, 100),
  )
  return config


def claim() -> Claim:
  """Beside GRPO in the same context, cut off where it ends."""
  cut = {
      'rollout.context': WHOLE,
      'rollout.batch_size': EPISODES,
      'evals.held_out.context': WHOLE,
      'sft.steps': 60,  # as many as the run has taken; cut off, it would not be stopped
  }
  return Claim(
      paper='S009',
      says='with summaries episodes end at the goal that are longer than the context; cut off, they do not',
      reading=mean('eval/held_out/accuracy', last=3),
      asserts=(above('cut off', by=0.1),),
      controls=(Arm('cut off', cut),),
      minutes=6.0,
  )
