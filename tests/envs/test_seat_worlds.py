"""Worlds of seats: each keeps the contract, and games in words are the games."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.games import kuhn as kuhns
from rlx.envs.games import tree
from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.seats import one_seat
from rlx.envs.worlds import tables
from rlx.envs.worlds.questions import questions
from rlx.envs.worlds.redteam import redteam

KUHN = tables.kuhn()
WORLDS = {
    'kuhn': lambda: KUHN,
    'handicap': lambda: tables.kuhn(handicap=1.0),
    'tictactoe': tables.tictactoe,
    'redteam': lambda: redteam(num_letters=4, known=0),
    'known': lambda: redteam(num_letters=4, known=2),
    'one seat': lambda: one_seat(questions(bits=3, decoys=1, cost=0.1, held_out_share=0.3)),
}


@pytest.mark.parametrize('name', WORLDS)
def test_worlds_keep_the_contract(name):
  check_seat_task(WORLDS[name](), num=256)


def unfinished(task):
  def act(state, action, length, key):
    reply = task.act(state, action, length, key)
    return reply._replace(rewards=reply.rewards / 0.0)

  return act


def reading_on(task):
  return lambda state, action, length, key: task.act(state, action, jnp.int32(action.shape[0]), key)


@pytest.mark.parametrize(('message', 'breaks'), [('not finite', unfinished), ('stands behind', reading_on)])
def test_what_breaks_the_contract_is_said(message, breaks):
  with pytest.raises(ValueError, match=message):
    check_seat_task(dataclasses.replace(KUHN, act=breaks(KUHN)), num=32)


def played(task, deal, words):
  """The payoffs of a game in words, and whether it has ended."""
  problem = {'deal': jnp.int32(deal)}
  state, act = task.start(problem), jax.jit(task.act)
  for word in words:
    action = jnp.asarray([*task.encode(word), 0])
    reply = act(state, action, jnp.int32(len(word)), jax.random.key(0))
    state = reply.state
  return np.asarray(reply.rewards), bool(reply.ended), reply


def test_moves_are_words_and_a_word_that_is_none_loses():
  kings = int(np.flatnonzero((np.asarray(KUHN.game.deals['cards']) == [2, 0]).all(axis=1))[0])
  for words, won in ((('p', 'p'), 1), (('b', 'b'), 2), (('p', 'b', 'p'), -1), (('K',), -2), (('p', 'pp'), 2)):
    rewards, ended, _ = played(KUHN, kings, words)
    assert ended and rewards.tolist() == [won, -won], words
  rewards, ended, reply = played(KUHN, kings, ('b',))
  assert not ended and not rewards.any() and reply.lengths.tolist() == [0, 1]
  assert KUHN.decode(reply.observations[1]) == 'b'
  rewards, ended, _ = played(tables.tictactoe(), 0, ('a', 'a'))
  assert ended and rewards.tolist() == [1, -1]


def test_rows_of_information_sets_are_what_seats_read():
  written = tree.written_out(KUHN.game)
  rows = tables.read_rows(KUHN, written.views, written.movers)
  texts = {KUHN.decode(row) for row in rows['tokens']}
  assert {'1K', '1Jpb', '2Qp', '2Kb'} <= texts and len(texts) == 12


def test_a_handicap_changes_what_seats_are_worth_and_not_how_far_from_nash_they_are():
  plain, other = (tree.written_out(kuhns.kuhn(handicap=x)) for x in (0.0, 1.0))
  table = tree.uniform(plain)
  np.testing.assert_allclose(tree.values(other, table) - tree.values(plain, table), [-1, 1], atol=1e-6)
  np.testing.assert_allclose(tree.nash_conv(other, table), tree.nash_conv(plain, table), rtol=1e-5)


def test_requests_mean_what_the_rule_says_and_who_asks_for_something_else_loses():
  world = redteam(num_letters=4, known=0)
  exam = world.exam()
  assert exam.tokens.shape == (16, 3) and 4 <= exam.kinds.sum() <= 12
  act = jax.jit(world.act)
  for row, kind in zip(exam.tokens, exam.kinds, strict=True):
    letters = jnp.asarray([*row[1:], 0])
    for harm in (False, True):
      state = {'harm': jnp.bool_(harm), 'asked': jnp.bool_(False)}
      reply = act(state, letters, jnp.int32(2), jax.random.key(0))
      assert bool(reply.ended) == (kind != harm) and reply.rewards.tolist() == [-1.0 * (kind != harm), 0]
  answer = jnp.asarray([*world.encode('r'), 0])
  state = {'harm': jnp.bool_(True), 'asked': jnp.bool_(True)}
  assert act(state, answer, jnp.int32(1), jax.random.key(0)).rewards.tolist() == [-1, 1]
  state['harm'] = jnp.bool_(False)
  assert act(state, answer, jnp.int32(1), jax.random.key(0)).rewards.tolist() == [1, -1]


def test_known_requests_are_drawn_whatever_the_attacker_says():
  world = redteam(num_letters=4, known=2)
  state = {'harm': jnp.bool_(True), 'asked': jnp.bool_(False)}
  replies = jax.vmap(lambda key: world.act(state, jnp.zeros(3, jnp.int32), jnp.int32(1), key))(
      jax.random.split(jax.random.key(0), 40)
  )
  assert len({world.decode(x) for x in np.asarray(replies.observations[:, 1])}) == 2
  assert not replies.ended.any() and not replies.rewards.any()
  with pytest.raises(ValueError, match='known=99'):
    redteam(num_letters=4, known=99)
