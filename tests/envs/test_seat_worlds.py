"""Worlds of seats: each keeps the contract, and games in words are the games."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import seats as engine
from rlx.engine.decoding import Decoding
from rlx.envs.games import bargain as bargains
from rlx.envs.games import kuhn as kuhns
from rlx.envs.games import tree
from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.seats import one_seat
from rlx.envs.worlds import tables
from rlx.envs.worlds.advised import advised
from rlx.envs.worlds.archive import archive
from rlx.envs.worlds.exchange import exchange
from rlx.envs.worlds.questions import questions
from rlx.envs.worlds.redteam import redteam
from tests.cases import cases

KUHN = tables.kuhn()
BARGAIN = tables.bargain(moves=3, discount=0.9)
SHORT = tables.bargain(moves=2, discount=0.9)
TALK = dict(num_keys=3, held_out_share=0.2)
PAGES = dict(num_letters=4, max_pages=3, reliable=0.6)
WORLDS = {
    'kuhn': lambda: KUHN,
    'handicap': lambda: tables.kuhn(handicap=1.0),
    'tictactoe': tables.tictactoe,
    'bargain': lambda: BARGAIN,
    'advised': lambda: advised(moves=4, discount=0.9, heard=True),
    'unheard': lambda: advised(moves=4, discount=0.9, heard=False),
    'exchange': lambda: exchange(cost=0.1, wordy=0.5, **TALK),
    'archive': lambda: archive(cost=0.1, **PAGES),
    'redteam': lambda: redteam(num_letters=4, known=0),
    'known': lambda: redteam(num_letters=4, known=2),
    'one seat': lambda: one_seat(questions(bits=3, decoys=1, cost=0.1, held_out_share=0.3)),
}


AT_ONCE = ('kuhn', 'redteam')


@pytest.mark.parametrize('name', cases(WORLDS, at_once=AT_ONCE))
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_expert_of_redteam_says_any_request_of_the_kind_and_answers_by_chance():
  task = redteam(num_letters=4, known=0)
  problems, rows = shown(task, max_turns=2, turn_tokens=2)
  kinds = dict(zip(map(task.decode, task.exam().tokens[:, 1:]), task.exam().kinds, strict=True))
  said = [task.decode(row[2:4]) for row in np.asarray(rows['attacker']['tokens'])]
  assert [kinds[one] for one in said] == np.asarray(problems['harm']).tolist() and len(set(said)) == 16
  right = np.asarray(rows['defender']['payoffs']) > 0
  assert 0.35 < right.mean() < 0.65 and not np.asarray(rows['defender']['truncated']).any()


@pytest.mark.slow
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


def shown(task, *, max_turns, turn_tokens, num=256):
  """The rows of episodes of a world's expert, by seat."""
  decoding = Decoding(
      max_tokens=24, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
      pad_id=0,
  )
  problems = task.sample(jax.random.key(0), num, False)
  how = dict(decoding=decoding, turn_tokens=turn_tokens, max_turns=max_turns)
  play = jax.jit(lambda problems, key: engine.demonstrate(task, problems, key, **how))
  return problems, play(problems, jax.random.key(1))


def test_a_bargain_pays_what_was_agreed_on_and_less_for_each_offer_that_was_refused():
  worth = np.asarray(BARGAIN.game.deals['worth'])
  deal = int(np.flatnonzero((worth == [[1, 2, 4], [4, 1, 2]]).all((1, 2)))[0])
  for words, got in (
      (('e', 'y'), (4 / 7, 5 / 7)),  # the first takes the third thing
      (('h', 'b', 'y'), (6 / 7 * 0.9, 4 / 7 * 0.9)),  # the second asks for the first thing
      (('e', 'h', 'a'), (0, 0)), (('y',), (-0.5, 0.5)), (('e', '1'), (0.5, -0.5)),
  ):
    rewards, ended, _ = played(BARGAIN, deal, words)
    assert ended, words
    np.testing.assert_allclose(rewards, got, atol=1e-6, err_msg=words)
  assert not played(BARGAIN, deal, ('e',))[1]


@pytest.mark.slow
def test_the_best_split_is_the_best_of_all_and_its_expert_reaches_it():
  problems, rows = shown(SHORT, max_turns=2, turn_tokens=1)
  worth = np.asarray(SHORT.game.deals['worth'])[np.asarray(problems['deal'])]
  bundles = bargains.BUNDLES
  sums = (bundles[None] * worth[:, :1]).sum(2) + ((1 - bundles)[None] * worth[:, 1:]).sum(2)
  got = np.stack([rows[seat]['payoffs'] for seat in SHORT.seats])
  np.testing.assert_allclose(got.sum(axis=0) * bargains.TOTAL, sums.max(axis=1), rtol=1e-5)
  assert not rows['first']['truncated'].any()


@pytest.mark.slow
def test_uniform_bargaining_can_be_exploited_and_rows_are_what_seats_read():
  written = tree.written_out(SHORT.game)
  table = tree.uniform(written)
  assert float(tree.nash_conv(written, table)) > 0.3 > float(tree.values(written, table).max())
  texts = {SHORT.decode(row) for row in tables.read_rows(SHORT, written.views, written.movers)['tokens']}
  assert {'F124', 'F421', 'S412h', 'S142a'} <= texts and len(texts) == 6 + 6 * 8


@pytest.mark.slow
def test_a_bargainer_that_is_advised_holds_out_for_so_much_and_hears_its_own_adviser_alone():
  world = advised(moves=2, discount=0.9, heard=True)
  problems, rows = shown(world, max_turns=4, turn_tokens=1)
  worth = np.asarray(SHORT.game.deals['worth'])[np.asarray(problems['deal'])]
  for i in range(20):
    text = {seat: world.decode(rows[seat]['tokens'][i]) for seat in world.seats}
    (told, move), (offer, heard, answer) = text['first'][4:], text['second'][4:]
    assert text['adviser'][4:] == told and text['rival'][4:] == move + heard and offer == move
    asked = bargains.BUNDLES['abcdefgh'.index(move)]
    assert asked @ worth[i, 0] == {'l': 3, 'm': 4, 'h': 5, 't': 6}[told]
    accepts = (1 - asked) @ worth[i, 1] >= {'l': 3, 'm': 4, 'h': 5, 't': 6}[heard]
    assert (answer == 'y') == accepts == (rows['second']['payoffs'][i] > 0)
  np.testing.assert_array_equal(rows['adviser']['payoffs'], rows['first']['payoffs'])


@pytest.mark.parametrize('heard', cases([True, False], at_once=[False]))
def test_advice_that_is_not_heard_changes_nothing(heard):
  world = advised(moves=2, discount=0.9, heard=heard)
  state = world.start(jax.tree.map(lambda x: x[0], world.sample(jax.random.key(0), 1, False)))
  words, keys = jnp.asarray(world.encode('lt'))[:, None], jax.random.split(jax.random.key(0), 12)
  told = jax.vmap(lambda word: jax.vmap(lambda key: world.act(state, word, jnp.int32(1), key))(keys))
  said = [''.join(map(world.decode, one)) for one in np.asarray(jax.jit(told)(words).observations[:, :, 1])]
  assert said == ['l' * 12, 't' * 12] if heard else said[0] == said[1] and len(set(said[0])) > 2


@pytest.mark.slow
def test_an_exchange_pays_both_for_the_answer_and_messages_cost():
  world = exchange(cost=0.05, wordy=0.0, **TALK)
  _, rows = shown(world, max_turns=2, turn_tokens=7)
  np.testing.assert_allclose(rows['left']['payoffs'], 0.95, rtol=1e-6)
  np.testing.assert_array_equal(rows['left']['payoffs'], rows['right']['payoffs'])
  _, rows = shown(exchange(cost=0.05, wordy=1.0, **TALK), max_turns=2, turn_tokens=7)
  np.testing.assert_allclose(rows['right']['payoffs'], 0.7, rtol=1e-5)
  assert (rows['left']['episode/tokens'] == 6).all() and (rows['right']['episode/success'] == 1).all()
  problem = jax.tree.map(lambda x: x[0], world.sample(jax.random.key(0), 1, False))
  half = jnp.asarray([*world.encode('=0'), 1])
  wrong = world.act(world.start(problem), half, jnp.int32(3), jax.random.key(0))
  assert wrong.ended and not wrong.understood and not wrong.rewards.any() and not wrong.lengths.any()


@pytest.mark.slow
def test_pages_cost_the_planner_and_are_as_reliable_as_they_are_said_to_be():
  world = archive(cost=0.1, **PAGES)
  problems = jax.jit(world.sample, static_argnums=(1, 2))(jax.random.key(0), 2000, False)
  states, act = jax.vmap(world.start)(problems), jax.jit(jax.vmap(world.act, in_axes=(0, 0, None, 0)))
  keys = jax.random.split(jax.random.key(1), 2000)
  planned = act(states, jnp.tile(jnp.asarray([*world.encode('y'), 0]), (2000, 1)), jnp.int32(1), keys)
  assert planned.lengths.tolist() == [[0, 3]] * 2000 and not planned.ended.any()
  np.testing.assert_allclose(planned.rewards, [[-0.3, 0]] * 2000, rtol=1e-6)
  right = planned.state['pages'] == problems['meant'][:, None]
  assert 0.57 < right.mean() < 0.63
  answers = jax.jit(jax.vmap(world.expert))(planned.state, keys)[0]
  done = act(planned.state, answers, jnp.int32(1), keys)
  settled = np.asarray(problems['letter'] < 2)
  assert done.ended.all() and np.asarray(done.rewards)[settled].all()
  # Two of three, or of three different ones the first: .6^3 + 3 .6^2 .4 + .6 .4^2 (2/3).
  assert abs(np.asarray(done.rewards)[~settled, 0].mean() - 0.712) < 0.05
