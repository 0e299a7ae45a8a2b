"""AutoGLM: planners and grounders share names and nothing else, and tasks come from failures."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds.form import code_of, end_to_end, form
from rlx.rollout import evolved
from tests.cases import cases

SIZE = {'fields': 2, 'values': 2, 'pages': 3, 'lengths': (0.5, 0.5)}
WORLDS = [form(**SIZE, site=site) for site in (0, 1)]
WORLD = WORLDS[0]
SAMPLE = [jax.jit(world.sample, static_argnums=(1, 2)) for world in WORLDS]
# `A` has number 3, `B` 1, `w` 5, `x` 2 and what hands in 4; `B` is to be `w`.
PROBLEM = {
    'place': jnp.array([2, 0, 4, 1, 3]), 'fields': jnp.array([1, 0]), 'wanted': jnp.array([0, 0]),
    'goals': jnp.int32(1),
}


def played(world, words):
  """What a world replies to words of one token each."""
  state, replies, act = world.start(PROBLEM), [], jax.jit(world.act)
  for word in words:
    replies.append(act(state, jnp.asarray(world.encode(word)), jnp.int32(1), jax.random.key(0)))
    state = replies[-1].state
  return replies


def codes_of(problems):
  counts = jnp.arange(2)[None] < problems['goals'][:, None]
  return code_of(problems['fields'], problems['wanted'], counts) % 2


def heard(world, reply):
  return [world.decode(x[:n]) for x, n in zip(reply.observations, reply.lengths, strict=True)]


def test_a_name_goes_to_the_grounder_and_what_is_pressed_comes_back():
  replies = played(WORLD, 'B1w5r4')
  to = {'planner': lambda name: [name, ''], 'grounder': lambda name: ['', name]}
  expected = [to[seat](name) for name in 'Bwr' for seat in ('grounder', 'planner')]
  assert [heard(WORLD, reply) for reply in replies] == expected
  assert [reply.rewards.tolist() for reply in replies] == 5 * [[0, 0]] + [[1, 1]]
  assert [bool(reply.ended) for reply in replies] == 5 * [False] + [True]
  assert float(replies[-1].info['found']) == 1.0


@pytest.mark.parametrize(('words', 'solved', 'found'), [
    ('B1w2r4', 0.0, 2 / 3),  # the grounder has pressed `x`, whatever was named
    ('A1w5r4', 1.0, 2 / 3),  # and here `B` by mistake, which is right
    ('w5B1r4', 0.0, 1.0),  # a value without a field is for nothing
    ('A3w5r4', 0.0, 1.0),  # another field
])
def test_the_form_is_filled_by_numbers_alone(words, solved, found):
  last = played(WORLD, words)[-1]
  assert float(last.rewards[0]) == solved and float(last.info['found']) == pytest.approx(found)


def test_end_to_end_the_numbers_are_said_by_who_has_the_task():
  world = end_to_end(**SIZE, site=0)
  replies = played(world, '154')
  assert [heard(world, reply) for reply in replies] == [['B'], ['w'], ['r']]
  assert replies[-1].rewards.tolist() == [1.0] and bool(replies[-1].ended)


@pytest.mark.slow
def test_sites_differ_in_their_numbers_and_not_in_what_anybody_reads():
  first, second = (jax.device_get(sample(jax.random.key(0), 64, False)) for sample in SAMPLE)
  np.testing.assert_array_equal(first['prompts'], second['prompts'])
  numbered = lambda one: list(zip(one['prompts'][:, 1, 0].tolist(), one['place'].tolist(), strict=True))
  both = [numbered(one) for one in (first, second)]
  tables = [dict(pairs) for pairs in both]
  assert all(len(table) == 3 for table in tables)  # a numbering for each page
  for page, numbers in tables[0].items():
    assert sorted(numbers) == sorted(tables[1][page]) == list(range(5)) and numbers != tables[1][page]
  assert all(tables[0][page] == numbers for page, numbers in both[0])


@pytest.mark.parametrize('held_out', [False, True])
def test_a_task_is_held_out_by_its_code(held_out):
  problems = SAMPLE[0](jax.random.key(1), 64, held_out)
  codes = codes_of(problems)
  assert bool(jnp.all((codes == 0) == held_out))


def test_tasks_like_others_have_their_fields_and_are_not_held_out():
  problems = SAMPLE[0](jax.random.key(1), 64, True)
  made = jax.jit(WORLD.vary)(problems, jax.random.key(2))
  for name in ('fields', 'goals'):
    np.testing.assert_array_equal(made[name], problems[name])
  codes = codes_of(made)
  assert bool(jnp.all(codes == 1))


@pytest.mark.parametrize('share', cases([0.0, 0.5], at_once=[0.5]))
def test_a_share_of_the_tasks_are_like_those_that_have_failed(monkeypatch, share):
  """Tasks of two goals fail; then the tasks that are made have two goals."""

  def asking(task, speakers, *, group_size, turn_tokens, max_turns):
    del task, speakers, turn_tokens, max_turns

    def ask(models, problems, key, world_key, step):
      rows = jax.tree.map(lambda x: jnp.repeat(x, group_size, axis=0), problems)
      return {'planner': {'goals': rows['goals'], 'rewards': (rows['goals'] < 2).astype(jnp.float32)}}

    return ask

  monkeypatch.setattr(evolved, 'asking', asking)
  monkeypatch.setattr(evolved.engine, 'together', lambda rows, learnt: rows[learnt[0]])
  rollout = evolved.from_failures(
      WORLD, {}, episodes=64, group_size=2, turn_tokens=1, max_turns=None, learnt=('planner',), share=share,
      size=32, at_most=0.5,
  )
  world, draw = rollout.begin(jax.random.key(0)), jax.jit(rollout.draw)
  for step in range(3):
    batch, world = draw({}, world, jax.random.key(step))
    made = np.asarray(batch['evolved/made'])
    assert made.mean() == (share if step else 0.0)  # nothing has failed before the first batch
    assert (np.asarray(batch['goals'])[made] == 2).all()
    world = rollout.observe(world, batch)
  assert int(world['failed']['size']) == 32  # of more that have failed


@pytest.mark.slow
@pytest.mark.parametrize('world', [WORLD, end_to_end(**SIZE, site=1)], ids=['two', 'one'])
def test_the_worlds_keep_the_contract(world):
  check_seat_task(world, num=64, max_turns=24)
