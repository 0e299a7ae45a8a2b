"""Critique-RL on sums: a critic that is first paid for judging, and then for what an actor makes of it.

    rlx --config=selfplay/critique_rl --workdir=runs/critique

The world is `envs/worlds/critique.py`. An actor is cloned from the expert (`drill`): half of its first
answers are right, it leaves alone what is called right, and takes over a digit that it is told four times in
five. It is frozen, and the critic begins as a copy of it. In the stage `judge` the critic's reward is direct,
whether it told right from wrong; in the main stage it is that the refined answer is right, and, so that it
goes on telling, half of the direct reward and a KL to the critic of the first stage.

Paper: https://arxiv.org/abs/2510.24320

The critic never learns to judge: what it calls right stays at the base rate through the stage that pays it
for that. It is no lack of exploration: on three trial seeds an entropy bonus of 0.03 or 0.1 in that stage
keeps its entropy up (1.6, of a trial seed with 0.1), and it is right about 0.58 of the answers at its end, as
at its start, and 0.60 and 0.61 behind the main stage. Nor is it the number of sums: with a modulus of 3 it is
0.56 through the stage, and 0.66 in the end; with the indirect reward alone, 0.65. A decoder of more than its
one layer was not tried.

Result: it does not show. Final eval/critic/judged after 1250 train steps, median of 5 seeds (worst): 0.6465
(0.5879), 'indirect alone' 0.6309 (0.5879). Claimed, and got (95 % interval over seeds): above 0.8, got 0.6543
(0.6074 to 0.6953), the run fails it; above 'indirect alone' by 0.2, got 0.01953 (0 to 0.0625), the run fails
it; final eval/critic/gain: above 'indirect alone' by 0.05, got -0.1875 (-0.2402 to -0.06445), the reverse
holds. 337 CPU-s on 2 cores of a CPU; `rlx reproduce selfplay/critique_rl`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.selfplay import kuhn_magnet

DRILLED, STEPS = 250, 500  # of the actor, and of each of the critic's stages
TALK = {'turn_tokens': 1, 'max_turns': 3}
SPEAKERS = {'actor': 'actor', 'critic': 'policy'}


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing)."""
  arg = parse_arg(arg, smoke=False)
  config = kuhn_magnet.get_config('', steps=STEPS)
  config.stages = ('drill', 'judge', 'main')
  config.task = _world(direct=0.5, indirect=1.0)
  config.models = ConfigDict({
      'actor': config.models.policy.to_dict(), 'policy': {'name': 'copy', 'names': {'of': 'actor'}}
  })
  config.slow = {'actor': 'actor', 'reference': 'policy'}
  config.decoding.max_tokens = 4
  config.rollout = {
      'name': 'seats.episodes', 'names': {**SPEAKERS}, 'episodes': 128, 'group_size': 16,
      'turn_tokens': TALK['turn_tokens'],
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TALK['max_turns']},
      'learnt': ('critic',),
  }
  config.algorithm = {**arithmetic.GRPO, 'kl': {'name': 'kl_in_loss', 'coef': 0.02}}
  config.optimizer.update(learning_rate=1e-3, decay_steps=0)
  learns = {'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict()}
  stage = {'stop': ConfigDict(), 'decoding': config.decoding.to_dict()}
  config.drill = {
      **stage, **learns, 'steps': DRILLED, 'trained': ('actor',), 'slow': ConfigDict(),
      'task': config.task.to_dict(),
      'rollout': {
          'name': 'seats.shown', 'names': dict.fromkeys(SPEAKERS, 'actor'), 'episodes': 96,
          'learnt': ('actor',), **TALK,
      },
      'algorithm': {'name': 'sft', 'names': {'policy': 'actor'}},
  }
  config.drill.optimizer.learning_rate = 4e-3
  config.judge = {
      **stage, **learns, 'steps': STEPS, 'trained': ('policy',), 'slow': {'actor': 'actor'},
      'task': _world(direct=1.0, indirect=0.0), 'rollout': config.rollout.to_dict(),
      'reward': {'name': 'of_world'}, 'algorithm': {**arithmetic.GRPO},
  }
  config.evals = {
      'critic': {'name': 'seats.episodes', 'names': {**SPEAKERS}, 'every': 125, 'problems': 512, **TALK}
  }
  config.log.update(headline='eval/critic/judged', steps_per_dispatch=25)
  config.checkpoint.every = DRILLED
  if arg.smoke:
    _shrink(config)
  return config


def claim() -> Claim:
  """The mechanism off: the same steps and games, and the indirect reward alone in both stages."""
  indirect = Arm('indirect alone', {'judge.task.direct': 0.0, 'judge.task.indirect': 1.0, 'task.direct': 0.0})
  return Claim(
      paper='S202',
      says='a critic that is paid for refinements alone tells right from wrong hardly better than chance; '
      'paid for judging first, and then for both, it tells, and refinements gain more',
      reading=final('eval/critic/judged'),
      asserts=(
          reaches(0.8),
          above('indirect alone', by=0.2),
          above('indirect alone', by=0.05, reading=final('eval/critic/gain')),
      ),
      controls=(indirect,),
      minutes=3.0,
  )


def _world(*, direct: float, indirect: float) -> dict:
  return {
      'name': 'worlds.critique.critique', 'modulus': 5, 'skill': 0.5, 'follows': 0.8, 'direct': direct,
      'indirect': indirect,
  }


def _shrink(config: ConfigDict) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.drill.steps = config.judge.steps = 4
  config.rollout.update(episodes=16, group_size=4)
  config.judge.rollout.update(episodes=16, group_size=4)
  config.drill.rollout.episodes = 8
  config.evals.critic.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
