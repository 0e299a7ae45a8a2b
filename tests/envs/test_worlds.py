"""Worlds of turns: each keeps the contract, and the contract notices what breaks it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import graphs, turns
from rlx.envs.conformance import check_turn_task
from rlx.envs.sorting import sorting
from rlx.envs.turns import fingerprint, one_turn
from rlx.envs.worlds.attempts import attempts
from rlx.envs.worlds.casebook import casebook
from rlx.envs.worlds.clinic import clinic
from rlx.envs.worlds.counsel import counsel
from rlx.envs.worlds.craft import craft
from rlx.envs.worlds.desk import desk
from rlx.envs.worlds.errand import errand
from rlx.envs.worlds.foreseen import foreseen
from rlx.envs.worlds.knowledge import knowledge
from rlx.envs.worlds.lane import lane
from rlx.envs.worlds.library import library
from rlx.envs.worlds.linked_pages import linked_pages
from rlx.envs.worlds.logged import semi_online
from rlx.envs.worlds.manners import manners
from rlx.envs.worlds.noisy_web import noisy_web
from rlx.envs.worlds.pages import pages
from rlx.envs.worlds.playbook import playbook
from rlx.envs.worlds.questions import questions
from rlx.envs.worlds.repair import printing, repair
from rlx.envs.worlds.rooms import rooms
from rlx.envs.worlds.scenes import scenes
from rlx.envs.worlds.sokoban import sokoban
from rlx.envs.worlds.workshop import workshop
from tests.cases import cases

WORLDS = {
    'rooms': lambda: rooms(height=2, width=3, num_mazes=4, loops=1, num_keys=1, held_out_share=0.2),
    'sokoban': lambda: sokoban(size=3, num_walls=1, num_plans=2, held_out_share=0.2),
    'questions': lambda: questions(bits=3, decoys=1, cost=0.1, held_out_share=0.3),
    'errand': lambda: errand(num_things=3, num_kinds=3, cost=0.2, useful=0.3, held_out_share=0.5),
    'manners': lambda: manners(num_letters=3, num_manners=3, requests=3, held_out_share=0.3),
    'workshop': lambda: workshop(num_letters=2, modulus=3, num_rules=2, held_out_share=0.3),
    'library': lambda: library(documents=4, max_links=2, libraries=8, held_out_share=0.3),
    'linked_pages': lambda: linked_pages(
        num_pages=4, max_links=1, sections=2, webs=4, stray=0.3, held_out_share=0.3),
    'noisy_web': lambda: noisy_web(
        subjects=3, digits=3, dropped=0.2, distracting=0.3, held_out_share=0.3),
    'knowledge': lambda: knowledge(
        entities=6, relations=2, density=0.6, rare_below=0.13, num_graphs=40,
        chains=functools.partial(graphs.around_rare, radius=2), min_hops=1, max_hops=4, held_out_share=0.25),
    'craft': lambda: craft(basics=3, dishes=4, event_reward=0.5, held_out_share=0.3),
    'desk': lambda: desk(pages=3, values=2, goals=2, calls=1, cost=0.01, held_out_share=0.3),
    'counsel': lambda: counsel(moods=4, needs=3, replies=3, patience=0.5, held_out_share=0.3),
    'repair': lambda: repair(operations=2, modulus=5, tests=3, held_out_share=0.3),
    'printing': lambda: printing(operations=2, modulus=5, tests=3, held_out_share=0.3),
    'lane': lambda: lane(lanes=2, length=6, sight=2, stride=2, cost=0.02, held_out_share=0.3),
    'playbook': lambda: playbook(
        situations=3, replies=3, turns=2, one_rule=True, told=0.5, each=0.5, held_out_share=0.3),
    'casebook': lambda: casebook(
        parts=2, letters=3, replies=3, turns=2, one_rule=True, told=0.5, held_out_share=0.3),
    'clinic': lambda: clinic(
        complaints=2, diseases=3, typical=4, common=2, noise=1, corpora=40, held_out_share=0.3),
    'foreseen': lambda: foreseen(
        task=lambda: sokoban(size=3, num_walls=1, num_plans=2, held_out_share=0.2), action_tokens=1,
        bonus=0.5),
    'pages': lambda: pages(titles=3, regions=2, digits=4, layouts=20, held_out_share=0.3),
    'attempts': lambda: attempts(
        task=lambda: sorting(length=2, held_out_share=0.2), num_attempts=2, stop_when_right=False,
        early=0.5, bonus=2.0),
    'scenes': lambda: scenes(
        places=3, symbols=3, renamed=0.5, wasteful=0.5, cost=0.05, held_out_share=0.3),
    'semi_online': lambda: dataclasses.replace(
        semi_online(
            task=lambda: desk(pages=2, values=2, goals=2, calls=1, cost=0.0, held_out_share=0.3),
            most_turns=5, patches=1),
        state_id=fingerprint),  # its own tells steps apart, and not what was patched
    'one_turn': lambda: one_turn(sorting(length=2, held_out_share=0.2)),
}


@pytest.mark.parametrize('name', cases(WORLDS, at_once=('rooms',)))
def test_worlds_keep_the_contract(name):
  check_turn_task(WORLDS[name](), num=128)


def broken(**changes):
  """A small world, parts of which are others."""
  world = rooms(height=1, width=3, num_mazes=1, loops=0, num_keys=0, held_out_share=0.4)
  return dataclasses.replace(world, **{name: make(world) for name, make in changes.items()})


def reading_on(world):
  def act(state, action, length, key):
    return world.act(state, action, jnp.int32(action.shape[0]), key)

  return act


def ending(world):
  def act(state, action, length, key):
    reply = world.act(state, action, length, key)
    return reply._replace(ended=reply.ended | ~reply.understood)

  return act


BROKEN = {
    'stands behind': dict(act=reading_on),
    'not understood ends': dict(act=ending),
    'expert_return=2.0': dict(expert_return=lambda world: 2.0),
    'the same id': dict(state_id=lambda world: lambda state: state['goal']),
    'observation_columns=3': dict(observation_columns=lambda world: 3),
}


@pytest.mark.parametrize('said', [
    pytest.param(x, marks=() if i == 0 else pytest.mark.slow) for i, x in enumerate(BROKEN)
])
def test_what_breaks_the_contract_is_told(said):
  with pytest.raises(ValueError, match=said):
    check_turn_task(broken(**BROKEN[said]), num=64, max_turns=8)


def test_what_is_said_ends_where_it_ends():
  said = lambda tokens, length, columns=3: turns.said(jnp.array(tokens), length, columns).tolist()
  assert said([5, 6, 1, 7], 3) == said([5, 6, 9, 7], 2) == said([5, 6], 2) == [5, 6, 0]
  assert said([5, 6, 7, 8], 4) == [5, 6, -1] and said([5, 6, 7], 3) == [5, 6, 7]
  assert said([1, 5], 2) == [0, 0, 0]


def test_fingerprints_tell_small_states_apart():
  number = jnp.arange(64)
  pairs = jnp.stack([number, jnp.full(64, 3)], axis=1)
  states = {'x': pairs, 'y': number % 2 == 0, 'z': jnp.zeros((64, 0))}
  ids = jax.vmap(turns.fingerprint)(states)
  assert len(set(np.asarray(ids).tolist())) == 64
  swapped = {'x': states['x'][:, ::-1], 'y': states['y'], 'z': states['z']}
  assert not np.any(np.asarray(jax.vmap(turns.fingerprint)(swapped))[4:] == np.asarray(ids)[4:])


def test_compact_closes_gaps():
  tokens, length = turns.compact(jnp.array([4, 5, 6, 7]), jnp.array([True, False, True, False]))
  assert tokens.tolist() == [4, 6, 0, 0] and length == 2


@pytest.mark.slow
def test_what_chance_reaches_is_measured():
  world = errand(num_things=2, num_kinds=2, cost=0.0, useful=0.0, held_out_share=0.5)
  assert world.random_return(max_turns=1) < world.random_return(max_turns=30) < 0.7
  assert world.random_return(max_turns=30) == pytest.approx(0.5, abs=0.1)  # it fetches one of two in the end


def test_a_question_is_paid_once_and_where_it_is_needed():
  """Two things of one kind: which one is meant is unclear. Of two kinds: it is clear."""
  world = errand(num_things=2, num_kinds=2, cost=0.2, useful=0.5, held_out_share=0.5)
  ask, key = jnp.asarray(world.encode('?')), jax.random.key(0)

  def paid(kinds):
    state = {'meant': jnp.int32(0), 'kinds': jnp.array(kinds), 'asked': jnp.bool_(False)}
    state['unclear'] = jnp.bool_(kinds[0] == kinds[1])
    first = world.act(state, ask, jnp.int32(1), key)
    second = world.act(first.state, ask, jnp.int32(1), key)
    return float(first.reward), float(second.reward), float(second.info['needless'])

  np.testing.assert_allclose(paid([1, 1]), (0.3, -0.2, 0), atol=1e-6)
  np.testing.assert_allclose(paid([1, 0]), (-0.2, -0.2, 1), atol=1e-6)


@pytest.mark.parametrize('calls', [0, 2])
def test_a_desk_whose_calls_are_the_same_everywhere_holds_out_what_is_asked(calls):
  world = desk(pages=2, values=2, goals=1, calls=calls, cost=0.0, held_out_share=0.5)
  trained, held_out = (
      {tuple(row) for row in np.asarray(world.sample(jax.random.key(0), 64, part)['prompts']).tolist()}
      for part in (False, True)
  )
  assert trained and held_out and not trained & held_out


def test_a_desk_sets_by_a_call_what_has_one_and_refuses_others():
  world = desk(pages=2, values=2, goals=1, calls=1, cost=0.0, held_out_share=0.5)
  state = {
      'target': jnp.array([0, -1]), 'has_call': jnp.array([True, False]), 'page': jnp.int32(1),
      'fields': jnp.full(2, -1), 'called': jnp.float32(0), 'refused': jnp.float32(0),
  }
  act = jax.jit(world.act)

  def told(state, action):
    reply = act(state, jnp.asarray(world.encode(action)), jnp.int32(len(action)), jax.random.key(0))
    info = (float(reply.info[name]) for name in ('calls', 'refused', 'called'))
    return reply.state, (world.decode(reply.observation), *info)

  state, first = told(state, 'sBx')
  assert first == ('!B.', 0, 1, 0) and int(state['fields'][1]) == -1
  by_hand = {**state, 'fields': jnp.array([0, -1])}
  assert told(by_hand, 'r')[1] == (':B.', 0, 1, 0)
  state, second = told(state, 'sAx')
  assert second == (':Ax', 1, 1, 0) and int(state['fields'][0]) == 0
  assert told(state, 'r')[1] == (':Ax', 1, 1, 1)


def test_the_same_dialogue_with_a_user_has_the_same_score():
  """Wrong replies are forgiven at some turns and not at others, whatever the noise of the world is."""
  world = counsel(moods=9, needs=6, replies=6, patience=0.5, held_out_share=0.5)
  state = jax.tree.map(lambda x: x[0], world.sample(jax.random.key(3), 1, False))
  state, replies = world.start({**state, 'mood': jnp.int32(8)}), jnp.asarray(world.encode('u' * 6))

  @jax.jit
  def moods(key):
    def turn(state, said):
      reply = world.act(state, said[0][None], jnp.int32(1), said[1])
      return reply.state, (reply.reward, reply.state['need'])

    return jax.lax.scan(turn, state, (replies, jax.random.split(key, 6)))[1]

  of = [np.asarray(moods(jax.random.key(seed))[0]) for seed in range(3)]
  np.testing.assert_array_equal(of[0], of[1])
  np.testing.assert_array_equal(of[0], of[2])
  assert 0 < np.sum(of[0] < 0) < 6, 'some are forgiven'
