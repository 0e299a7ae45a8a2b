"""A small game written out: what strategies are worth, the best answer to one, how far from Nash they are.

A strategy is a table [I, A] over the information sets of all seats: what who knows this much does. A row may
sum to less than 1; the rest are illegal moves, which lose. States that are equal are one node, so a board
that is reached in several ways stands there once.

    NashConv(π) = Σ_i [ max_σ u_i(σ, π_-i) - u_i(π) ],   0 in a Nash equilibrium

Source: Lanctot et al., 2017, https://arxiv.org/abs/1711.00832, for the name.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.games.game import Game

_MOST_NODES = 100_000
_LOOKED_AT = 256  # positions at a time, so that one program looks at games of any size


class Level(NamedTuple):
  """The positions after the same number of moves, on the host: K of them, all of the same mover."""

  info: np.ndarray  # [K] int32, information set; -1 where the game has ended
  legal: np.ndarray  # [K, A] bool
  child: np.ndarray  # [K, A] int32, in the next level; 0 where the move is illegal
  payoffs: np.ndarray  # [K, N] float32, 0 where the game goes on


class Tree(NamedTuple):
  """A game, written out."""

  levels: tuple[Level, ...]
  views: np.ndarray  # [I, W] int32, what is known in each information set
  movers: np.ndarray  # [I] int32, the seat that moves there
  legal: np.ndarray  # [I, A] bool
  forfeits: np.ndarray  # [N, N] float32, payoffs where the seat of the row makes an illegal move

  @property
  def num_seats(self) -> int:
    return self.forfeits.shape[0]


def written_out(game: Game) -> Tree:
  """The tree of a game whose seats move in turn.

  Raises:
    ValueError: it is large, a payoff is not finite, or an information set has two sets of moves.
  """
  num, look = len(game.seats), _look_of(game)
  states, levels, views, movers, legal, known = jax.device_get(game.deals), [], [], [], [], {}
  for depth in range(game.max_moves + 1):
    seat = depth % num
    found, after = look(states, seat)
    goes_on = ~found['ended']
    if not np.isfinite(found['payoffs'][~goes_on]).all():
      raise ValueError(f'after {depth} moves a payoff is not finite; what games pay are numbers')
    info = np.full(len(goes_on), -1, np.int32)
    for node in np.flatnonzero(goes_on):
      name = (seat, found['view'][node].tobytes())
      if name not in known:
        known[name] = len(views)
        views.append(found['view'][node]), movers.append(seat), legal.append(found['legal'][node])
      info[node] = known[name]
      if (legal[info[node]] != found['legal'][node]).any():
        raise ValueError(f'what {game.seats[seat]!r} knows does not say which moves are allowed')
    allowed = found['legal'] & goes_on[:, None]
    states, child = _next_states(after, allowed)
    payoffs = np.where(goes_on[:, None], 0, found['payoffs']).astype(np.float32)
    levels.append(Level(info, allowed, child, payoffs))
    if states is None:
      break
  forfeits = np.stack([np.asarray(game.forfeited(jnp.int32(seat))) for seat in range(num)])
  return Tree(tuple(levels), np.stack(views), np.array(movers, np.int32), np.stack(legal), forfeits)


def _look_of(game: Game):
  """`(states [K, ...], seat) -> what is seen of them, and those after each move [K, A, ...]`."""

  def one(state, seat):
    seen = {
        'ended': game.ended(state), 'payoffs': game.payoffs(state), 'legal': game.legal(state),
        'view': game.view(state, seat),
    }
    return seen, jax.vmap(lambda action: game.move(state, action))(jnp.arange(game.num_actions))

  compiled = jax.jit(jax.vmap(one, in_axes=(0, None)))

  def look(states, seat: int):
    num, found = len(jax.tree.leaves(states)[0]), []
    for begin in range(0, num, _LOOKED_AT):
      at = np.minimum(np.arange(begin, begin + _LOOKED_AT), num - 1)
      found.append(jax.device_get(compiled(jax.tree.map(lambda x, at=at: x[at], states), np.int32(seat))))
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:num], *found)

  return look


def _next_states(after: Any, allowed: np.ndarray) -> tuple[Any, np.ndarray]:
  """The different states behind allowed moves, None if there are none, and [K, A] which of them each is."""
  child = np.zeros(allowed.shape, np.int32)
  if not allowed.any():
    return None, child
  leaves = [np.asarray(x)[allowed] for x in jax.tree.leaves(after)]
  rows = np.concatenate([x.reshape(len(x), -1) for x in leaves], axis=1)
  _, first, where = np.unique(rows, axis=0, return_index=True, return_inverse=True)
  if len(first) > _MOST_NODES:
    raise ValueError(f'{len(first)} positions after as many moves; at most {_MOST_NODES} are written out')
  child[allowed] = where.reshape(-1)
  return jax.tree.map(lambda x: np.asarray(x)[allowed][first], after), child


def uniform(tree: Tree) -> jax.Array:
  """[I, A]: every allowed move is as likely as the others."""
  return jnp.asarray(tree.legal / tree.legal.sum(axis=1, keepdims=True), jnp.float32)


def values(tree: Tree, strategy: jax.Array) -> jax.Array:
  """[N] float32: what each seat gets on average where all play the table [I, A]."""
  worth = None
  for depth in reversed(range(len(tree.levels))):
    level = tree.levels[depth]
    here = jnp.asarray(level.payoffs)
    if worth is not None:
      chances = _chances(level, strategy)
      lost = (level.info >= 0) - chances.sum(axis=1)
      here += (chances[..., None] * worth[level.child]).sum(axis=1)
      here += lost[:, None] * tree.forfeits[depth % tree.num_seats][None]
    worth = here
  return worth.mean(axis=0)


def won(tree: Tree) -> Tree:
  """The game in which all that counts is to be paid more than 0, which pays 1."""
  wins = lambda payoffs: (payoffs > 0).astype(np.float32)
  levels = tuple(level._replace(payoffs=wins(level.payoffs)) for level in tree.levels)
  return tree._replace(levels=levels, forfeits=wins(tree.forfeits))


def best_response(tree: Tree, strategy: jax.Array, seat: int) -> jax.Array:
  """[] float32: the most that a seat can get against the others, who play the table [I, A]."""
  worth = None
  for depth, reach in reversed([*enumerate(reaches(tree, strategy, seat))]):
    level = tree.levels[depth]
    here = jnp.asarray(level.payoffs[:, seat])
    if worth is not None:
      after = worth[level.child]
      if depth % tree.num_seats == seat:
        # One move for all positions that look the same, weighed by how likely the others make them.
        weighed = jnp.where(level.legal, reach[:, None] * after, 0)
        of_info = jnp.zeros((len(tree.movers), after.shape[1])).at[level.info].add(
            jnp.where((level.info >= 0)[:, None], weighed, 0)
        )
        move = jnp.argmax(jnp.where(tree.legal, of_info, -jnp.inf), axis=1)[level.info]
        here += jnp.where(level.info >= 0, jnp.take_along_axis(after, move[:, None], axis=1)[:, 0], 0)
      else:
        chances = _chances(level, strategy)
        lost = (level.info >= 0) - chances.sum(axis=1)
        here += (chances * after).sum(axis=1) + lost * tree.forfeits[depth % tree.num_seats, seat]
    worth = here
  return worth.mean()


def nash_conv(tree: Tree, strategy: jax.Array) -> jax.Array:
  """[] float32: what all seats together could gain, each by its best answer to the others; at least 0.

  Args:
    tree: of `written_out`.
    strategy: [I, A] chances of moves; what is missing to 1 are illegal moves.
  """
  best = jnp.stack([best_response(tree, strategy, seat) for seat in range(tree.num_seats)])
  return jnp.sum(best - values(tree, strategy))


def _chances(level: Level, strategy: jax.Array) -> jax.Array:
  """[K, A]: of allowed moves, at the positions of a level."""
  return jnp.where(level.legal, strategy[level.info], 0)


def reaches(tree: Tree, strategy: jax.Array, seat: int) -> list[jax.Array]:
  """For each level [K], how likely chance and all but one seat make its positions; with -1, and all seats."""
  reach = jnp.full(len(tree.levels[0].info), 1 / len(tree.levels[0].info))
  found = [reach]
  for depth, level in enumerate(tree.levels[:-1]):
    own = depth % tree.num_seats == seat
    chances = jnp.where(level.legal, 1.0, 0.0) if own else _chances(level, strategy)
    size = len(tree.levels[depth + 1].info)
    reach = jnp.zeros(size).at[level.child].add(jnp.where(level.legal, reach[:, None] * chances, 0))
    found.append(reach)
  return found


def own_reaches(tree: Tree, strategy: jax.Array, seat: int) -> list[jax.Array]:
  """For each level [K], how likely a seat makes its positions, if all others and chance want to get there."""
  reach = jnp.ones(len(tree.levels[0].info))
  found = [reach]
  for depth, level in enumerate(tree.levels[:-1]):
    own = depth % tree.num_seats == seat
    chances = jnp.where(level.legal, strategy[level.info] if own else 1.0, 0)
    size = len(tree.levels[depth + 1].info)
    reach = jnp.zeros(size).at[level.child].max(jnp.where(level.legal, reach[:, None] * chances, 0))
    found.append(reach)
  return found


def mixed(tree: Tree, strategies: jax.Array, weights: jax.Array) -> jax.Array:
  """[I, A]: what a seat does that draws a strategy before each game and keeps to it.

  Each counts at an information set as far as it gets there; where none does, as often as it is drawn.

  Args:
    tree: of `written_out`.
    strategies: [M, I, A].
    weights: [M], how often each is drawn; they sum to 1.
  Source: Kuhn, 1953, Extensive games and the problem of information (mixed and behaviour strategies).
  """
  reach = jax.vmap(lambda strategy: _own_reach_of_sets(tree, strategy))(strategies)
  drawn = weights[:, None] * reach
  share = jnp.where(drawn.sum(axis=0) > 0, drawn, weights[:, None])
  return (share[..., None] * strategies).sum(axis=0) / share.sum(axis=0)[:, None]


def _own_reach_of_sets(tree: Tree, strategy: jax.Array) -> jax.Array:
  """[I]: how likely who moves there gets there, if all others and chance want to."""
  found = jnp.zeros(len(tree.movers))
  for seat in range(tree.num_seats):
    for depth, reach in enumerate(own_reaches(tree, strategy, seat)):
      if depth % tree.num_seats == seat:
        info = tree.levels[depth].info
        found = found.at[jnp.where(info >= 0, info, len(tree.movers))].max(reach, mode='drop')
  return found
