"""Vision-Zero on symbols: who-is-the-spy by self-play, alternated with a single-player task that is verified.

    rlx --config=selfplay/spy_vision_zero --workdir=runs/spy

The world is `envs/worlds/spy.py`: scenes of three symbols, two civilians and a spy. One model sits at all
seats. It is cloned from an expert whose clues are often false and whose votes are guesses (`sft`): it knows
the words and no more. In the stage `main` it plays itself; turns are compared with those of the same role
(`by_seat`). In the stage `puzzle` it reads true clues alone and says which of them does not fit, and that is
verified. The two take turns, each with the optimizer that it left. A step of either has as many tokens.

Paper: https://arxiv.org/abs/2509.25541. There turns change by thresholds on how the game goes, and the votes
of the game are what is verified; here they change after so many steps, and votes pay in the game of all arms.

Clues stop being true in both arms (a share of .06 in the end), and votes stay guesses: lies save the one who
writes them before anybody has learnt to vote. From a start that thinks and is frank, self-play alone went
from .66 to .80 in 120 steps (one seed, no claim); beside that the puzzle was not tried.
From a start that is frank, with 0.4 of its votes thought about, three trial seeds fell to a share of .06 true
clues by self-play alone, of .13 with the puzzle, and to .49 and .52 right votes.

Result: it does not show. Final eval/game/detected after 520 train steps, median of 5 seeds (worst): 0.498
(0.4946), 'self-play alone' 0.4971 (0.4946). Claimed, and got (95 % interval over seeds): above 'self-play
alone' by 0.05, got -0.0004867 (-0.00521 to 0.008463), the run fails it. 471 CPU-s on 2 cores of a CPU;
`rlx reproduce selfplay/spy_vision_zero`.
"""

from ml_collections import ConfigDict

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, above, final
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.selfplay import kuhn_magnet

CIVILIANS, KINDS, VALUES = 2, 3, 4
TALK = {'turn_tokens': 2, 'max_turns': 2 * CIVILIANS + 1}
SEATS = ('spy', *(f'civilian{i + 1}' for i in range(CIVILIANS)))
CLONED, EACH, ROUNDS = 120, 40, 5  # train steps of imitation, of a turn; turns of each
EPISODES = 64
PUZZLES = 152  # 14 tokens each: no more than the 34 of an episode


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `alone` (self-play in the place of the puzzle)."""
  arg = parse_arg(arg, smoke=False, alone=False)
  config = kuhn_magnet.get_config('', steps=EACH)
  scenes = {'kinds': KINDS, 'values': VALUES, 'held_out_share': 0.1}
  config.task = {
      'name': 'worlds.spy.spy', **scenes, 'civilians': CIVILIANS, 'stakes': 1.0, 'personal': 1.0,
      'verdict': 1.0, 'skill': 0.0, 'frank': 0.5,
  }
  config.models.policy.update(
      num_layers=2, width=32, num_heads=4, num_kv_heads=4, mlp_size=64, context_length=16
  )
  config.slow = ConfigDict()
  config.decoding.max_tokens = 11  # of a civilian: a clue, six that it reads, a vote, and one more
  names = dict.fromkeys(SEATS, 'policy')
  config.rollout = {
      'name': 'seats.episodes', 'names': names, 'episodes': EPISODES, 'group_size': 4,
      'turn_tokens': TALK['turn_tokens'], 'learnt': SEATS,
      'max_turns': {'name': 'controllers.schedules.constant', 'value': TALK['max_turns']},
  }
  config.algorithm = ConfigDict({
      'name': 'policy_gradient',
      'baseline': {'name': 'advantages.seats.by_seat', 'discount': 1.0},
      'weight': {'name': 'losses.weights.equal'},
      'level': {'name': 'losses.ratios.ratio'},
      'surrogate': {'name': 'losses.policy.clipped', 'clip_low': 0.2, 'clip_high': 0.2},
      'reduction': {'name': 'reductions.token_mean'},
      'kl': {'name': 'no_kl'},
      'kl_estimator': {'name': 'losses.regularizers.kl_k3'},
      'entropy_coef': 0.0,
      'correction': {'name': 'losses.corrections.none'},
      'correction_level': {'name': 'losses.ratios.ratio'},
  })
  config.optimizer.update(learning_rate=2e-3, decay_steps=0)
  stage = {
      'stop': ConfigDict(), 'trained': ('policy',), 'slow': ConfigDict(),
      'updates': config.updates.to_dict(), 'optimizer': config.optimizer.to_dict(),
  }
  config.sft = {
      **stage, 'steps': CLONED, 'task': config.task.to_dict(), 'decoding': config.decoding.to_dict(),
      'rollout': {'name': 'seats.shown', 'names': names, 'episodes': 64, 'learnt': SEATS, **TALK},
      'algorithm': {'name': 'sft'},
  }
  config.sft.optimizer.learning_rate = 3e-3
  config.stages = ('sft', *('main',) * (2 * ROUNDS))
  config.keeps = True
  if not arg.alone:
    config.stages = ('sft', *('puzzle', 'main') * ROUNDS)
    config.puzzle = {
        **stage, 'steps': EACH, 'task': {'name': 'worlds.spy.odd_clue', 'civilians': CIVILIANS, **scenes},
        'decoding': {**config.decoding.to_dict(), 'max_tokens': 2},
        'rollout': {
            'name': 'prompts.completions', 'batch_size': PUZZLES, 'group_size': 4, 'num_slots': 0
        },
        'reward': {'name': 'verifier'}, 'algorithm': {**arithmetic.GRPO}, 'keeps': True,
    }
  config.evals = {
      'game': {'name': 'seats.episodes', 'names': names, 'every': EACH, 'problems': 1024, **TALK}
  }
  config.checkpoint.every = 3 * EACH
  config.log.headline = 'eval/game/detected'
  if arg.smoke:
    _shrink(config, alone=arg.alone)
  return config


def claim() -> Claim:
  """The mechanism off: self-play in all turns, of as many tokens and steps."""
  return Claim(
      paper='S132',
      says='the spy is found more often by self-play, and still more by turns of self-play and of a puzzle '
      'that is verified, where self-play alone of as many tokens stays behind',
      reading=final('eval/game/detected'),
      asserts=(above('self-play alone', by=0.05),),
      baseline=Arm('self-play alone', config='selfplay/spy_vision_zero:alone=True'),
      minutes=6.0,
  )


def _shrink(config: ConfigDict, *, alone: bool) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.rollout.update(episodes=16, group_size=4)
  config.sft.rollout.episodes = 8
  if not alone:
    config.puzzle.steps, config.puzzle.rollout.batch_size = 4, 16
  config.evals.game.update(every=2, problems=16)
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
