"""UI-S1 on logs of the desk of `desk_ultracua`: stored episodes, walked along with the policy's own history.

    rlx --config=agents/desk_ui_s1 --workdir=runs/ui_s1
    rlx --config=agents/desk_ui_s1:logs=steps --workdir=runs/ui_s1_steps  # offline RL, behind the expert's

No desk is touched in training: `envs/worlds/logged.py` has its expert's episodes. Some are cloned, then GiGPO
learns on all, in groups of one episode, which compares steps of the log by their discounted returns and
episodes by their sums. Semi-online, two wrong actions of an episode are patched, and stay in the context as
they were said. Offline, each row is one step behind what the expert did, as many actions a train step as
whole episodes have: semi-online there are fewer while episodes end early. The patches have no thoughts, of
which this policy has none.

Three scores are read every 20 steps: `held_out`, episodes at the desk itself, which are the online success;
`semi`, stored episodes walked along without a patch, whose `reward` is the progress; and `stepwise`, the
share of single steps that are right behind the expert's history. How the last two follow the first over
checkpoints of all arms is in `tests/papers/test_ui_s1.py`.

The paper's other claim shows: over the checkpoints behind cloning of the first two arms (5 seeds, 50) the
correlation with online success is 0.75 of `semi`'s reward and 0.61 of `stepwise`; over all checkpoints it is
the larger one in each seed. Why learning offline is better here was not tested. Perhaps a policy without
thoughts has nothing to keep in its own history, and the log shows no screen that a wrong action would have
led to. With twice the episodes, groups of eight and 20 steps more, one seed, it was 0.31 and 0.56.

Paper: https://arxiv.org/abs/2509.11543

Result: it does not show. Mean of the last 2 eval/held_out/accuracy after 120 train steps, median of 5 seeds
(worst): 0.11 (0.03), 'offline' 0.235 (0.165), 'no patches' 0.135 (0.04). Claimed, and got (95 % interval over
seeds): above 'offline', got -0.13 (-0.2383 to -0.04333), the reverse holds; above 'no patches', got -0.04333
(-0.1133 to -0.006667), the reverse holds. 607 CPU-s on 2 cores of a CPU; `rlx reproduce agents/desk_ui_s1`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.errors import ConfigError
from rlx.experiments.claims import Arm, Claim, above, mean
from rlx.experiments.configs.agents import desk_ultracua

SHOWN, CLONED, STEPS = 32, 40, 80  # episodes, and steps of both stages
TURNS = 5  # of the longest stored episode
EPISODES, ACTIONS, GROUP = 32, 128, 4  # of a train step; an episode has about four actions
PATCHES = 2


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `logs` (`whole` episodes, or `steps`)."""
  arg = parse_arg(arg, smoke=False, logs='whole')
  if arg.logs not in ('whole', 'steps'):
    raise ConfigError(f'logs={arg.logs!r} is none of whole, steps')
  config = desk_ultracua.at_desk(f'smoke={arg.smoke}', steps=STEPS)
  desk = config.task.to_dict()
  walk = {'name': 'worlds.logged.semi_online', 'task': desk, 'most_turns': TURNS, 'patches': PATCHES}
  steps = {
      'name': 'worlds.logged.step_by_step', 'task': desk, 'most_turns': TURNS,
      'turn_tokens': desk_ultracua.TURNS['turn_tokens'],
  }
  config.task = walk if arg.logs == 'whole' else steps
  longest = 1 if arg.logs == 'steps' else TURNS
  rows = ACTIONS if arg.logs == 'steps' else EPISODES
  config.rollout.update(
      batch_size=16 if arg.smoke else rows, group_size=GROUP,
      max_turns={'name': 'controllers.schedules.constant', 'value': longest},
  )
  config.models.policy.context_length = 96  # tokens; a prompt may hold a history
  config.algorithm = {
      'name': 'gigpo',
      'clip_low': 0.2,
      'clip_high': 0.2,
      'kl': {'name': 'no_kl'},
      'discount': 0.5,  # from step to step
      'step_weight': 1.0,
      'scaled': True,
  }
  config.sft.rollout.num_problems = SHOWN
  if not arg.smoke:
    config.sft.steps = CLONED
  held_out = config.evals.held_out
  held_out.task = desk
  config.evals.semi = {**held_out.to_dict(), 'task': {**walk, 'patches': 0}, 'max_turns': TURNS}
  config.evals.stepwise = {**held_out.to_dict(), 'task': steps, 'max_turns': 1}
  return config


def claim() -> Claim:
  """Beside single steps behind the expert's history, as many actions a step, and episodes without patches."""
  return Claim(
      paper='S191',
      says='RL along stored episodes with its own history succeeds more often online than RL on single '
      'steps, and patches help',
      reading=mean('eval/held_out/accuracy', last=2),
      asserts=(above('offline'), above('no patches')),
      baseline=Arm('offline', config='agents/desk_ui_s1:logs=steps'),
      controls=(Arm('no patches', {'task.patches': 0}),),
      minutes=8.0,
  )
