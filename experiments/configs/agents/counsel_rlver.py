"""RLVER: a user's mood at the end is the reward, and users that are moderately patient train best. RL alone.

    rlx --config=agents/counsel_rlver --workdir=runs/rlver

The world is `envs/worlds/counsel.py`: a user shows a need, and is lifted by the reply that fits it. Users are
self-consistent: the same dialogue has the same score. All policies are examined with the same users, who
forgive one wrong reply in four; those they train with forgive half of them, none, or nearly all.

Paper: https://arxiv.org/abs/2507.03112 (with GRPO; that it thinks before it replies is left out)

Result: it shows in part. Mean of the last 2 eval/held_out/mood after 100 train steps, median of 5 seeds
(worst): 1 (0.9983), 'untrained' 0.5167 (0.3483), 'challenging' 1 (1), 'easy' 0.9933 (0.6417). Claimed, and
got (95 % interval over seeds): above 0.7, got 1 (0.9989 to 1); above 'challenging', got 0 (-0.001113 to 0),
the run fails it; above 'easy', got 0.01389 (0 to 0.2406), the seeds leave it open. 472 CPU-s on 2 cores of a
CPU; `rlx reproduce agents/counsel_rlver`.
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
  config.task = {
      'name': 'counsel',
      'moods': 6,
      'needs': 4,
      'replies': 4,
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
      says='paid for the mood of a user at the end a policy lifts it, and more so where it was trained with '
      'moderately patient users than with challenging or easy ones',
      reading=mean('eval/held_out/mood', last=2),
      asserts=(reaches(0.7), above('challenging'), above('easy')),
      controls=(Arm('untrained', {'optimizer.learning_rate': 0.0}),),
      beside=(
          Arm('challenging', {'task.patience': CHALLENGING}),
          Arm('easy', {'task.patience': EASY}),
      ),
      minutes=5.0,
  )
