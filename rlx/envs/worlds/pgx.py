"""Games of pgx in words: a move is a character, and the other reads it.

    connect_four:   `1` -> d | `2` d -> d | `1` d d -> c      columns a..g
"""

import string

from rlx.envs import text
from rlx.envs.games.pgx import board_game
from rlx.envs.worlds.tables import WordGame, in_words

_SEATS, _LETTERS, _MORE = '12', string.ascii_letters, 0x4E00  # characters of moves: letters, then others


def from_pgx(*, game: str, max_moves: int) -> WordGame:
  """A game of two of pgx. There is one problem: the board at the start.

  Args:
    game: pgx's name for it, such as `connect_four`.
    max_moves: after so many of both together nobody wins.
  Raises:
    ConfigError: as `board_game`.
  """
  rules = board_game(game=game, max_moves=max_moves)
  more = map(chr, range(_MORE, _MORE + rules.num_actions))
  moves = ''.join([*_LETTERS, *more][: rules.num_actions])
  alphabet = _SEATS + moves
  marks = text.characters(_SEATS, alphabet)
  return in_words(
      rules, alphabet=alphabet, moves=moves, hand=lambda state, seat: marks[seat][None], prompt_columns=1,
      history=lambda view: view,
  )
