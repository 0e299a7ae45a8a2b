"""RLVER: a user's mood at the end is the reward, and users that are moderately patient train best. RL alone.

    rlx --config=agents/counsel_rlver --workdir=runs/rlver

The world is `envs/worlds/counsel.py`: a user shows a need, and is lifted by the reply that fits it. Users are
self-consistent: the same dialogue has the same score. All policies are examined with the same users, who
forgive one wrong reply in four; those they train with forgive half of them, none, or nearly all.

Paper: https://arxiv.org/abs/2507.03112 (with GRPO; that it thinks before it replies is left out)

Result: it shows. Mean over the run of eval/held_out/mood after 100 train steps, median of 16 seeds (worst):
0.7376 (0.6433), 'untrained' 0.4433 (0.3033), 'challenging' 0.6119 (0.5114), 'easy' 0.6243 (0.3542). Claimed,
and got (95 % interval over seeds): mean of the last 2 eval/held_out/mood: above 0.7, got 0.9599 (0.9006 to
0.9938); above 'challenging', got 0.1063 (0.05893 to 0.1509); above 'easy', got 0.1482 (0.0536 to 0.2368). 817
CPU-s on 2 cores of a CPU; `rlx reproduce agents/counsel_rlver`.

With four needs and four replies there was no room: after 100 steps users that forgive half, none and nearly
all had brought five seeds to a mood of 1, 1 and 0.99. With six of each three trial seeds end at 1, 1 and 0.96
after 160 steps, but come there sooner or later: 0.98, 0.73 and 0.91 after 60. So it is the mean over the run
that is read. Eight other seeds left the easy users open: 0.053 more (-0.008 to 0.158).
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, mean, reaches
from rlx.experiments.configs.agents import errand_ask

TURNS = {'turn_tokens': 1, 'max_turns': 10}
MODERATE, CHALLENGING, EASY, EXAMINED = 0.5, 0.0, 0.9, 0.25  # patience


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  config = errand_ask.get_config(arg)
  arg = parse_arg(arg, smoke=False)
  config.seed = 20  # the first ones had been looked at
  config.task = {
      'name': 'counsel',
      'moods': 6,
      'needs': 6,
      'replies': 6,
      'patience': MODERATE,
      'held_out_share': 0.1,
  }
  config.models.policy.context_length = 44
  config.decoding.max_tokens = 40  # ten replies, and three tokens that are read behind each
  config.rollout.turn_tokens = TURNS['turn_tokens']
  config.rollout.max_turns.value = TURNS['max_turns']
  config.evals.held_out.update(TURNS, task={**config.task, 'patience': EXAMINED})
  if not arg.smoke:
    config.steps, config.rollout.batch_size = 100, 64
    config.optimizer.decay_steps = 80
    config.evals.held_out.problems = 100
  return config


def claim() -> Claim:
  """Beside training with users that forgive nothing, or nearly everything; the control learns nothing."""
  return Claim(
      paper='S023',
      says='paid for the mood of a user at the end a policy lifts it, and sooner where it is trained with '
      'moderately patient users than with challenging or easy ones',
      reading=mean('eval/held_out/mood'),
      asserts=(
          reaches(0.7, reading=mean('eval/held_out/mood', last=2)),
          above('challenging'),
          above('easy'),
      ),
      controls=(Arm('untrained', {'optimizer.learning_rate': 0.0}),),
      beside=(
          Arm('challenging', {'task.patience': CHALLENGING}),
          Arm('easy', {'task.patience': EASY}),
      ),
      seeds=16,
      minutes=14.0,
  )
