"""LSPO: wordings are clustered by who says them, their game is solved, and its chances label the pairs."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import text
from rlx.envs.games import cfr, kuhn, latent
from rlx.envs.games.wordings import in_wordings
from rlx.envs.worlds import tables
from rlx.errors import ConfigError
from rlx.experiments.configs.selfplay import werewolf_lspo
from rlx.rollout import abstraction

JACK, QUEEN, KING = range(3)
P, Q, B, C, PASSES, BETS = range(6)  # two wordings to pass, two to bet, and the plain moves behind the talk
MEANT = [0, 0, 1, 1]  # of the words, up to names
ALPHABET = '12JQK' + 'pqbcxy'


@functools.cache
def worded_kuhn():
  """Kuhn's poker in which the first move is said in one of two wordings."""
  cards, seats = text.characters('JQK', ALPHABET), text.characters('12', ALPHABET)
  world = tables.in_words(
      in_wordings(kuhn.kuhn(), wordings=2, talked=1), alphabet=ALPHABET, moves='pqbcxy', prompt_columns=2,
      hand=lambda state, seat: jnp.stack([seats[seat], cards[state['inner']['cards'][seat]]]),
      history=lambda view: view[1:],
  )
  return dataclasses.replace(world, num_words=4)


def at(found, seat, view):
  """The number of an information set."""
  [place] = np.flatnonzero((found.views == view).all(axis=1) & (found.movers == seat))
  return place


label = jax.jit(abstraction.preferred)


@jax.jit
def solved(rounds):
  """Regrets of worded Kuhn whose words are clustered as they are meant; latent moves, and their chances."""
  world = worded_kuhn()
  found, known = world.tree, abstraction.known_of(world, world.tree)
  space = latent.abstracted(found, known, jnp.array(MEANT), jnp.ones(4))
  pool = lambda gains: latent.pooled(gains, space)
  regrets = cfr.solved(found, cfr.no_regrets(found), rounds=rounds, pool=pool)
  return regrets, latent.chances(found, space, cfr.average_strategy(found, regrets)), space.moves


def test_a_wording_is_played_as_the_move_that_it_means():
  """What the tree knows: a bet is worth the same in both wordings, and the second player hears which."""
  game, found = worded_kuhn().game, worded_kuhn().tree
  assert game.num_actions == 6 and found.levels[0].legal.tolist() == [[True] * 4 + [False] * 2] * 6
  assert {tuple(row) for row in found.levels[1].legal.tolist()} == {(False,) * 4 + (True,) * 2}
  worth = lambda words: found.levels[2].payoffs[found.levels[1].child[found.levels[0].child[:, words], BETS]]
  np.testing.assert_array_equal(worth(B), worth(C))
  assert (np.abs(worth(C)) == 2).all() and not worth(P).any()  # called; and a bet behind a pass goes on
  assert {tuple(view[1:]) for view in found.views[found.movers == 1]} == {(w, -1, -1) for w in (P, Q, B, C)}


def test_words_are_embedded_by_who_says_them_and_clustered():
  world = worded_kuhn()
  known = abstraction.known_of(world, world.tree)
  strategy = np.zeros(world.tree.legal.shape, np.float32)
  for card, chances in ((JACK, [0.6, 0.4, 0, 0]), (QUEEN, [0.3, 0.7, 0, 0]), (KING, [0, 0, 0.5, 0.5])):
    strategy[at(world.tree, 0, [card, -1, -1, -1]), :4] = chances
  embed = jax.jit(lambda table: latent.embeddings(world.tree, known, table, 4))
  points, said = embed(jnp.asarray(strategy))
  np.testing.assert_allclose(said, np.array([0.9, 1.1, 0.5, 0.5]) / 3, rtol=1e-5)
  expected = [[2 / 3, 1 / 3, 0], [4 / 11, 7 / 11, 0], [0, 0, 1], [0, 0, 1]]
  np.testing.assert_allclose(points, expected, rtol=1e-5)
  words = jax.jit(functools.partial(latent.k_means, clusters=2, rounds=3))(points, said)
  assert words[0] == words[1] != words[2] == words[3]
  assert float(abstraction.purity(world, words)) == 1
  assert float(abstraction.purity(world, jnp.array([0, 1, 0, 1]))) == pytest.approx(2 / 6)


def test_what_is_pooled_by_hand():
  """Two wordings that are said 1 : 3, at two sets that are one in the latent game."""
  space = latent.Latent(
      moves=jnp.array([0, 0, 1]), infos=jnp.array([1, 1]), shares=jnp.array([[0.25, 0.75, 1.0]] * 2)
  )
  gains = jnp.array([[4.0, 0.0, 1.0], [0.0, 4.0, 2.0]])
  both = 0.25 * 4 + 0.75 * 4
  np.testing.assert_allclose(jax.jit(latent.pooled)(gains, space), [[both / 4, both * 3 / 4, 3.0]] * 2)


def test_a_round_by_hand():
  """The first player with a king, as in `test_cfr.py`: to bet gains 3/8, and both wordings are that."""
  found, (regrets, chances, _) = worded_kuhn().tree, solved(1)
  gain = (1.5 - 0.75) / 2 * 2 / 6
  first = at(found, 0, [KING, -1, -1, -1])
  np.testing.assert_allclose(regrets.gained[first], [0, 0, gain / 2, gain / 2, 0, 0], atol=1e-6)
  np.testing.assert_allclose(chances[first], [0.5] * 4 + [0] * 2, atol=1e-6)  # of latent moves
  heard = [at(found, 1, [JACK, word, -1, -1]) for word in (B, C)]
  np.testing.assert_allclose(*(regrets.gained[place] for place in heard), atol=1e-6)  # it is all the same
  assert regrets.gained[heard[0]][PASSES] > 0  # a jack that is bet at folds


def test_who_holds_a_king_and_is_bet_at_prefers_to_call_and_with_the_mechanism_off_labels_are_chance():
  place = jnp.full(400, at(worded_kuhn().tree, 1, [KING, B, -1, -1]))
  pairs, keys = jnp.tile(jnp.array([PASSES, BETS]), (400, 1)), jax.random.key(3)
  for rounds, least, most in ((30, 0.0, 0.01), (0, 0.4, 0.6)):
    _, chances, moves = solved(rounds)
    first, weights = label({'chances': chances, 'moves': moves}, place, pairs, keys)
    assert least <= float(first.mean()) <= most and weights.min() == 1


def test_labels_are_drawn_by_the_chances_of_latent_moves():
  found = {'chances': jnp.array([[0.2, 0.2, 0.8, 0.0, 0.0]]), 'moves': jnp.array([0, 0, 1, 2, 3])}
  pairs = ([0, 1], [3, 4], [-1, -1], [2, 2], [0, 2], [0, 3], [3, 2], [-1, 0], [1, -1])
  each = 2000
  first, weights = label(
      found, jnp.zeros(len(pairs) * each, jnp.int32), jnp.repeat(jnp.array(pairs), each, axis=0),
      jax.random.key(0),
  )
  often = np.asarray(first).reshape(-1, each).mean(axis=1)
  assert np.asarray(weights)[::each].tolist() == [0] * 4 + [1] * 5  # one latent move, or neither is played
  assert often[4] == pytest.approx(0.2, abs=0.03)
  assert often[5:].tolist() == [1, 0, 0, 1]  # what is not allowed, or no move, comes behind


def test_a_pair_is_two_words_behind_what_was_read():
  world = worded_kuhn()
  place = at(world.tree, 0, [QUEEN, -1, -1, -1])
  rollout = abstraction.strategic_pairs(world, Says(world.encode('pb')), batch_size=64)
  memory = rollout.begin(jax.random.key(0))
  memory['solution'] |= {
      'chances': jnp.broadcast_to(jnp.array([0.0, 0, 1, 1, 0, 0]), world.tree.legal.shape),
      'moves': jnp.array([*MEANT, 4, 5]), 'visits': jnp.zeros(len(world.tree.movers)).at[place].set(1.0),
  }
  batch, _ = jax.jit(lambda key: rollout.draw({'reference': None}, memory, key))(jax.random.key(1))
  texts = [world.decode(row) for row in np.asarray(batch['tokens'])]
  pairs = list(zip(texts[::2], texts[1::2], batch['weights'][::2].tolist(), strict=True))
  assert {pair for pair in pairs if pair[2]} == {('1Qb', '1Qp', 1.0)}
  assert {pair for pair in pairs if not pair[2]} == {('1Qb', '1Qb', 0.0), ('1Qp', '1Qp', 0.0)}
  assert (batch['action_mask'].sum(axis=1) == 1).all() and batch['action_mask'][:, 2].all()
  assert (batch['valid'].sum(axis=1) == 3).all()
  assert batch['groups'].tolist() == sorted([*range(32)] * 2)


class Says:
  """A speaker that says some tokens, each as often, whatever it reads."""

  def __init__(self, tokens):
    self.logits = jnp.full(2 + len(ALPHABET), -jnp.inf).at[jnp.asarray(tokens)].set(0.0)

  def next_logits(self, params, tokens, lengths, *, prompt_columns):
    del params, lengths
    assert prompt_columns == 2
    return jnp.broadcast_to(self.logits, (len(tokens), len(self.logits)))


def test_words_are_needed():
  with pytest.raises(ConfigError, match='num_words'):
    abstraction.strategic_pairs(tables.kuhn(), types.SimpleNamespace(), batch_size=4)


def test_the_reference_is_the_policy_of_the_rounds_beginning_and_the_control_solves_nothing():
  config, (control,) = werewolf_lspo.get_config(), werewolf_lspo.claim().controls
  assert config.stages == ('sft', *('solve', 'main') * werewolf_lspo.ROUNDS) and not config.keeps
  assert config.slow.to_dict() == config.solve.slow.to_dict() == {'reference': 'policy'}
  assert config.solve.trained == () and config.takes == ('solution',)
  assert dict(control.overrides) == {'solve.rollout.cfr_rounds': 0}
