"""LSPO on Werewolf for three: words are clustered, CFR solves the latent game, DPO says it in words; again.

    rlx --config=selfplay/werewolf_lspo --workdir=runs/lspo
    rlx --config=selfplay/werewolf_lspo:alone=True --workdir=runs/grpo     # self-play by GRPO

The game is `envs/games/werewolf.py`; each of its three claims can be worded in two ways, and nobody is told
what a word means. One model sits at all seats. It is cloned from an expert who does anything that is allowed
(`sft`). In `solve` nothing is learnt: words are embedded by who says them in self-play, k-means makes latent
moves of them, and CFR+ solves the latent game. In `main` DPO learns from pairs of words that the policy says
in a situation as it was when the round began, labelled by the solution; it is held to the policy of then. The
two are entered three times.

How often a seat wins against two who do anything that is allowed is exact (`eval/chance`), and so is how far
from Nash all three are (`eval/nash`): of chance it is .39, and one seat wins .417 of its games; in an
equilibrium .54 of them.

Paper: https://arxiv.org/abs/2502.04686, read in summaries. There sentences have embeddings of a model of
sentences, candidates are said for being unlike, and Deep CFR plays seven; a candidate's label is here drawn
by the solution's chances, which makes what it mixes surer with every round, and the game mixes little.

One seed, outside of this config (β = 1, 80 steps a round, four rounds): .414, .486, .531, .533, .531 of games
won, and .43, .67, .60, .33, .25 from Nash: what is half learnt can be exploited more than play by chance, and
when that falls there is nothing more to win from those who play by chance.

Result: it shows in part. Final eval/chance/win_rate after 480 train steps, median of 5 seeds (worst): 0.5261
(0.5202), 'labels by chance' 0.4148 (0.4134), 'one round' 0.454 (0.4336). Claimed, and got (95 % interval over
seeds): above 'labels by chance' by 0.05, got 0.11 (0.1061 to 0.1144); least rise in a round of
eval/chance/win_rate: above 0, got 0.02076 (-0.01117 to 0.02168), the seeds leave it open; first less last,
behind cloning, of eval/nash/nash_conv: above 0, got -0.1099 (-0.1612 to -0.07151), the run fails it; final
eval/nash/nash_conv: below 'labels by chance', got -0.1074 (-0.1705 to -0.05939), the reverse holds. 655 CPU-s
on 2 cores of a CPU; `rlx reproduce selfplay/werewolf_lspo`.
"""

from ml_collections import ConfigDict
import numpy as np

from rlx.config import parse_arg
from rlx.experiments.claims import Arm, Claim, Reading, above, final, reaches
from rlx.experiments.configs.quickstart import arithmetic
from rlx.experiments.configs.selfplay import spy_vision_zero

SEATS = ('first', 'second', 'third')
MOVES = 6  # of all three, a token each
CLONED, SOLVED, EACH, ROUNDS = 240, 5, 75, 3  # train steps of imitation, of a solution, of DPO; rounds
EVERY = SOLVED + EACH


def get_config(arg: str = '') -> ConfigDict:
  """Arguments: `smoke` (seconds, learns nothing); `alone` (self-play by GRPO in the place of the rounds)."""
  arg = parse_arg(arg, smoke=False, alone=False)
  config = spy_vision_zero.get_config('alone=True')
  config.task = ConfigDict({'name': 'worlds.tables.worded_werewolf', 'wordings': 2})
  config.decoding.max_tokens = MOVES + 1  # of a seat: what it says and reads
  names, talk = dict.fromkeys(SEATS, 'policy'), {'turn_tokens': 1, 'max_turns': MOVES}
  config.sft.task, config.sft.decoding = ConfigDict(config.task.to_dict()), config.decoding.to_dict()
  config.sft.steps = CLONED
  config.sft.rollout = {'name': 'seats.shown', 'names': names, 'episodes': 64, 'learnt': SEATS, **talk}
  config.evals = ConfigDict({
      'nash': {'name': 'nash.nash_conv', 'names': names, 'every': EVERY},
      'chance': {'name': 'nash.against_chance', 'names': names, 'every': EVERY},
  })
  config.checkpoint.every = EVERY
  config.log.update(headline='eval/chance/win_rate', samples=0, steps_per_dispatch=SOLVED)
  if arg.alone:
    _play_alone(config, names)
  else:
    _alternate(config)
  if arg.smoke:
    _shrink(config, alone=arg.alone)
  return config


def claim() -> Claim:
  """The mechanism off: a solution of no rounds of CFR, so that labels are chance but for what is allowed.

  Beside it, one solution and one reference for as many steps, which says what going back and forth is for.
  """
  cloned = lambda at: np.asarray(at) >= CLONED  # the first of them is the start, the others are the rounds
  rises = Reading(
      'eval/chance/win_rate', 'least rise in a round of',
      lambda at, values: np.diff(values[:, cloned(at)], axis=1).min(axis=1),
  )
  fall = Reading(
      'eval/nash/nash_conv', 'first less last, behind cloning, of',
      lambda at, values: values[:, cloned(at)][:, 0] - values[:, -1],
  )
  whole = ROUNDS * EVERY - SOLVED
  one_round = {'stages': ('sft', 'solve', 'main'), 'steps': whole, 'optimizer.decay_steps': whole - 15}
  return Claim(
      paper='S125',
      says='the win rate of a policy rises with each round of pairs that are labelled by CFR in a latent '
      'space, and it can be exploited less',
      reading=final('eval/chance/win_rate'),
      asserts=(
          above('labels by chance', by=0.05), reaches(0.0, reading=rises), reaches(0.0, reading=fall),
          above('labels by chance', reading=final('eval/nash/nash_conv', lower=True)),
      ),
      controls=(Arm('labels by chance', {'solve.rollout.cfr_rounds': 0}),),
      beside=(Arm('one round', one_round),),
      minutes=8.0,
  )


def _alternate(config: ConfigDict) -> None:
  """Rounds of a solution and of DPO."""
  config.stages, config.keeps = ('sft', *('solve', 'main') * ROUNDS), False
  config.solve = {
      'steps': SOLVED, 'stop': ConfigDict(), 'trained': (), 'slow': {'reference': 'policy'},
      'decoding': config.decoding.to_dict(), 'algorithm': {'name': 'gather'}, 'reward': {'name': 'of_world'},
      'rollout': {
          'name': 'abstraction.latent_solution', 'clusters': 3, 'cfr_rounds': 20, 'explored': 0.5,
      },
  }
  config.steps, config.slow, config.takes = EACH, {'reference': 'policy'}, ('solution',)
  config.rollout = ConfigDict({'name': 'abstraction.strategic_pairs', 'batch_size': 512})
  config.algorithm = ConfigDict({'name': 'dpo', 'loss': {'name': 'sigmoid', 'beta': 1.5}})
  config.optimizer.update(learning_rate=1.5e-3, warmup_steps=15, decay_steps=EACH - 15)  # of each round
  del config['reward']


def _play_alone(config: ConfigDict, names: dict) -> None:
  """Self-play by GRPO for as many steps."""
  config.stages, config.steps, config.keeps = ('sft', 'main'), ROUNDS * EVERY, False
  config.algorithm = ConfigDict({**arithmetic.GRPO})
  config.rollout.names = ConfigDict(names)
  config.rollout.update(learnt=SEATS, episodes=96, group_size=16, turn_tokens=1)
  config.rollout.max_turns.value = MOVES


def _shrink(config: ConfigDict, *, alone: bool) -> None:
  """A run of a few seconds that takes every path."""
  config.steps = config.sft.steps = 4
  config.sft.rollout.episodes = 8
  if alone:
    config.rollout.update(episodes=16, group_size=4)
  else:
    config.rollout.batch_size, config.solve.steps = 16, 2
    config.solve.rollout.cfr_rounds = 1
  for exam in config.evals.values():
    exam.every = 2
  config.checkpoint = {'every': 2, 'keep': 2}
  config.log.steps_per_dispatch = 2
