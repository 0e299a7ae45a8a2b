"""Games in words: a move is a character, the others read it, and a seat is told at first what it holds.

    kuhn:        `1K` -> p | `2J` p -> b | `1K` p b -> b          the card, then moves as they are made
    tictactoe:   `x` -> e | `o` e -> a | `x` e a -> i             places a..i
    bargain:     `F124` -> g | `S421` g -> d | `F124` g d -> y     worth of three things, offers a..h, or yes
    werewolf:    `1SN` -> n | `2W-` n -> b | `3V-` n b -> q | ..   role, who the wolf is; claims, votes
    worded_werewolf:  `1SN` -> d | `2W-` d -> e | `3V-` d e -> a | ..   claims in any of several wordings

A word that is no move, or a move that is not allowed, loses the game at once (`Game.forfeit`).
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.games import bargain as bargains
from rlx.envs.games import kuhn as kuhns
from rlx.envs.games import tictactoe as crosses
from rlx.envs.games import tree as trees
from rlx.envs.games import werewolf as wolves
from rlx.envs.games.game import Game
from rlx.envs.games.tree import Tree
from rlx.envs.games.wordings import in_wordings
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask, told
from rlx.envs.turns import index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

OFFERS, YES = 'abcdefgh', 'y'  # of a bargain: a letter for each bundle that is taken
_WORDINGS, _VOTES = 'abcdefghijklmno', '.><'  # of Werewolf: nobody, the next seat, the seat before


@dataclasses.dataclass(frozen=True, kw_only=True)
class WordGame(SeatTask):
  """A game in words, which knows its game.

  Attributes:
    game: as numbers.
    moves: [A] tokens of the moves.
    hand: `(state, seat) -> [prompt_columns] tokens`, what a seat is told at first.
    history: `view -> [M]` of the moves that a seat knows in the order in which they were made, -1 for none,
      which stand last in the view; None where what is known does not say it.
    num_words: the first so many moves are wordings, of which several mean the same; none where it is 0.
  """

  game: Game
  moves: np.ndarray
  hand: Callable[[Any, int], jax.Array]
  history: Callable[[np.ndarray], np.ndarray] | None
  num_words: int = 0

  @functools.cached_property
  def tree(self) -> Tree:
    """The game, written out; of a small one."""
    return trees.written_out(self.game)


def kuhn(*, handicap: float = 0.0) -> WordGame:
  """Kuhn's poker. A deal is a problem; there are six, and all are trained on: nothing is held out.

  Args:
    handicap: what the first player pays the second for every game.
  """
  alphabet = '12JQKpb'
  cards, seats = text.characters('JQK', alphabet), text.characters('12', alphabet)
  hand = lambda state, seat: jnp.stack([seats[seat], cards[state['cards'][seat]]])
  return in_words(
      kuhns.kuhn(handicap=handicap), alphabet=alphabet, moves='pb', hand=hand, prompt_columns=2,
      history=lambda view: view[1:],
  )


def tictactoe() -> WordGame:
  """Noughts and crosses. There is one problem: the empty board."""
  alphabet = 'xo' + 'abcdefghi'
  marks = text.characters('xo', alphabet)
  return in_words(
      crosses.tictactoe(), alphabet=alphabet, moves='abcdefghi', hand=lambda state, seat: marks[seat][None],
      prompt_columns=1, history=None,
  )


def bargain(*, moves: int, discount: float) -> WordGame:
  """Offers and one acceptance. The 36 pairs of values are the problems; nothing is held out.

  The expert knows what things are worth to both: a seat asks for its part of the best split, and the other
  accepts.

  Args:
    moves: of both together; at least 2.
    discount: of what is shared, for each offer that was refused.
  """
  alphabet = 'FS124' + OFFERS + YES
  marks, digits = text.characters('FS', alphabet), text.characters('124', alphabet)
  words = text.characters(OFFERS + YES, alphabet)

  def hand(state, seat: int) -> jax.Array:
    worth = digits[jnp.searchsorted(jnp.array([1, 2, 4]), state['worth'][seat])]
    return jnp.concatenate([marks[seat][None], worth])

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    del key
    best, made = bargains.best_split(state['game']['worth']), state['moved']
    asks = jnp.where(made % 2 == 0, best, bargains.NUM_BUNDLES - 1 - best)
    offered = state['game']['history'][made - 1] == bargains.NUM_BUNDLES - 1 - asks
    return with_end(words[jnp.where((made > 0) & offered, bargains.ACCEPT, asks)][None], 1, 2)

  world = in_words(
      bargains.bargain(moves=moves, discount=discount), alphabet=alphabet, moves=OFFERS + YES, hand=hand,
      prompt_columns=1 + bargains.NUM_THINGS, history=lambda view: view[bargains.NUM_THINGS :],
  )
  return dataclasses.replace(world, expert=expert)


def werewolf() -> WordGame:
  """Werewolf for three. The six deals are the problems; nothing is held out.

  The expert does anything that is allowed: it shows the rules and no more.
  """
  return _werewolf(wolves.werewolf(), lambda state: state, moves='qnb')


def worded_werewolf(*, wordings: int) -> WordGame:
  """Werewolf for three in which every claim can be worded in several ways, and votes are signs.

  The letters are wordings of the claims in order: of nothing, then of the next seat, then of the seat before.
  Nobody who plays is told what a letter means. The expert does anything that is allowed.

  Args:
    wordings: of each claim, 1 to 5.
  """
  between(1, len(_WORDINGS) // wolves.NUM_SEATS, wordings=wordings)
  words = _WORDINGS[: wolves.NUM_SEATS * wordings]
  game = in_wordings(wolves.werewolf(), wordings=wordings, talked=wolves.NUM_SEATS)
  world = _werewolf(game, lambda state: state['inner'], moves=words + _VOTES)
  return dataclasses.replace(world, num_words=len(words))


def _werewolf(game: Game, inner: Callable, *, moves: str) -> WordGame:
  """Werewolf in the words of `moves`; `inner` finds the state of its rules in that of the game."""
  alphabet = '123WSV-NB' + moves
  seats, roles = text.characters('123', alphabet), text.characters('WSV', alphabet)
  sights, words = text.characters('-NB', alphabet), text.characters(moves, alphabet)

  def hand(state, seat: int) -> jax.Array:
    state = inner(state)
    sees = jnp.where(state['roles'][seat] == wolves.SEER, wolves.wolf_of(state, jnp.int32(seat)), 0)
    return jnp.stack([seats[seat], roles[state['roles'][seat]], sights[sees]])

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    allowed = jnp.where(game.legal(state['game']), 0.0, -jnp.inf)
    return words[jax.random.categorical(key, allowed)][None], jnp.int32(1)

  world = in_words(
      game, alphabet=alphabet, moves=moves, hand=hand, prompt_columns=3, history=lambda view: view[2:]
  )
  return dataclasses.replace(world, expert=expert, answer_columns=1)


def in_words(
    game: Game, *, alphabet: str, moves: str, hand: Callable, prompt_columns: int, history: Callable | None
) -> WordGame:
  """A game whose moves are characters.

  Args:
    game: whose seats move in turn.
    alphabet: of what is said and read.
    moves: a character for each move.
    hand: as `WordGame.hand`.
    prompt_columns: tokens of a hand.
    history: as `WordGame.history`.
  """
  num, words = len(game.seats), text.characters(moves, alphabet)

  def sample(key: jax.Array, count: int, held_out: bool) -> Batch:
    del held_out  # every deal of a game is played
    deal = jax.random.randint(key, (count,), 0, game.num_deals)
    states = jax.tree.map(lambda x: x[deal], game.deals)
    prompts = [jax.vmap(lambda state, seat=seat: hand(state, seat))(states) for seat in range(num)]
    return {
        'deal': deal, 'prompts': jnp.stack(prompts, axis=1),
        'prompt_lengths': jnp.full((count, num), prompt_columns, jnp.int32),
    }

  def start(problem: Batch):
    return {'game': jax.tree.map(lambda x: x[problem['deal']], game.deals), 'moved': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    word, seat = said(action, length, 2), state['moved'] % num
    move, is_move = index_in(words, word[0])
    understood = is_move & (word[1] == text.PAD_ID)
    legal = understood & game.legal(state['game'])[move]
    after = jax.tree.map(
        lambda new, old: jnp.where(legal, new, old), game.move(state['game'], move), state['game'])
    ended = legal & game.ended(after)
    paid = jnp.where(ended, game.payoffs(after), jnp.where(legal, 0, game.forfeited(seat)))
    observations, lengths = told(words[move][None], jnp.arange(num) != seat)
    return SeatReply(
        state={'game': after, 'moved': state['moved'] + 1}, observations=observations, lengths=lengths,
        rewards=paid.astype(jnp.float32), ended=ended | ~legal, understood=understood,
        info={SUCCESS: (paid[0] > 0).astype(jnp.float32), 'legal': legal.astype(jnp.float32),
              'first': paid[0].astype(jnp.float32)},
    )

  return WordGame(
      alphabet=alphabet, prompt_columns=prompt_columns, answer_columns=2, sample=sample, seats=game.seats,
      order=tuple(range(num)), observation_columns=1, start=start, act=act, game=game,
      moves=np.asarray(words), hand=hand, history=history,
  )


def read_rows(task: WordGame, views: np.ndarray, movers: np.ndarray) -> Mapping[str, np.ndarray]:
  """What seats have read when they are to move, as rows; an action is one token.

  Args:
    task: a game that has `history`.
    views: [I, W] of `Tree.views`.
    movers: [I] seats.
  Returns:
    `tokens` [I, prompt_columns + max_moves] and `lengths` [I].
  Raises:
    ValueError: what is known does not say what was read.
  """
  if task.history is None:
    raise ValueError('a position of this game is reached in several ways: no row can be written for it')
  deals = [jax.tree.map(lambda x, i=i: x[i], task.game.deals) for i in range(task.game.num_deals)]
  known = lambda view: tuple(view[: len(view) - len(task.history(view))].tolist())  # but for the moves
  held = {}
  for seat in range(len(task.seats)):
    for deal in deals:
      held[seat, known(np.asarray(task.game.view(deal, seat)))] = np.asarray(task.hand(deal, seat))
  rows = []
  for view, seat in zip(views, movers, strict=True):
    made = [task.moves[move] for move in task.history(view) if move >= 0]
    rows.append([*held[int(seat), known(view)], *made])
  width = task.prompt_columns + task.game.max_moves
  tokens = np.zeros((len(rows), width), np.int32)
  for i, row in enumerate(rows):
    tokens[i, : len(row)] = row
  return {'tokens': tokens, 'lengths': np.array([len(row) for row in rows], np.int32)}
