"""Think in Games: what is thought of a state is free, and the action is paid for agreeing with a record.

https://arxiv.org/abs/2508.21365
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.control.choices import chosen_words
from rlx.envs.records import agrees, named_in, records
from rlx.envs.worlds.lane import free_cells, lane
from rlx.errors import ConfigError

ROAD = functools.partial(lane, lanes=2, length=6, sight=2, stride=2, cost=0.0, held_out_share=0.2)


@pytest.fixture(scope='module')
def task():
  note = functools.partial(free_cells, lanes=2, sight=2)
  return records(game=ROAD, games=8, max_turns=8, note=note, separator='>')


def encoded(task, *texts, columns=8):
  """Texts as completions; `$` ends."""
  rows = [[1 if c == '$' else int(task.encode(c)[0]) for c in one] for one in texts]
  return jnp.array([row + [0] * (columns - len(row)) for row in rows], jnp.int32)


def test_the_note_says_how_many_cells_are_free_in_each_lane():
  world = ROAD()
  note = free_cells(world, lanes=2, sight=2)
  said = [world.decode(note(jnp.asarray(world.encode(view)))) for view in ('A>x..x', 'B>...x', 'A>....')]
  assert said == ['x1', '21', '22']


def test_only_the_action_behind_the_sign_is_held_against_the_record(task):
  problems = {'solutions': encoded(task, *['21>G2$'] * 7)}
  answers = ('21>G2$', 'xx>G2$', '>G2$', 'G2$', '21>g$', 'G2>g$', '21>G2>$')
  paid = task.verify(problems, encoded(task, *answers))
  # A wrong note costs nothing, and neither does none; an action in front of the sign is a thought.
  np.testing.assert_array_equal(paid, [1, 1, 1, 1, 0, 0, 0])


def test_nothing_said_agrees_with_nothing():
  empty = (jnp.array([1, 0, 0]), jnp.int32(1))
  assert not bool(agrees(empty, empty, columns=3))


def test_the_named_action_is_what_the_world_takes(task):
  action, length = named_in(encoded(task, '21>G2$')[0], jnp.int32(task.encode('>')[0]))
  np.testing.assert_array_equal(action[:4], encoded(task, 'G2$')[0][:4])
  assert int(length) == 3


def test_records_are_the_turns_of_games_that_were_won(task):
  """Driven again by the recorded actions, problem by problem, as far as what is seen is what was recorded."""
  problems = jax.tree.map(np.asarray, task.sample(jax.random.key(0), 64, False))
  texts = ([task.decode(row) for row in problems[name]] for name in ('prompts', 'solutions'))
  recorded = dict(zip(*texts, strict=True))
  for view, answer in recorded.items():
    note, _, action = answer.partition('>')
    free = {'x': 0, '1': 1, '2': 2}[note['AB'.index(view[0])]]
    if free == 0:
      assert action == ('r' if view[0] == 'A' else 'l')
    else:
      assert action in ('g', 'G2')[:free]  # before the end of the road, as far as the lane is free


def test_chance_pays_as_much_for_any_answer(task):
  """The control: without the record no answer is better than another."""
  from rlx.rewards.of_world import of_chance  # the arm of the claim

  rows = {'groups': jnp.arange(64), 'tokens': jnp.zeros((64, 4), jnp.int32)}
  other = {**rows, 'tokens': jnp.ones((64, 4), jnp.int32)}
  pay = lambda batch: of_chance(share=0.5)({}, batch, jax.random.key(0))['rewards']
  np.testing.assert_array_equal(pay(rows), pay(other))


def test_who_chooses_words_plays_the_same_game():
  world, env = ROAD(), chosen_words(game=ROAD, words=('l', 'r', 'g', 'G2'), max_turns=2)
  state, seen = env.reset(jax.random.key(1))
  expert, length = world.expert(state[0])
  word = world.decode(expert)
  after = world.act(state[0], expert, length, jax.random.key(0))
  new = env.step(state, jnp.int32(('l', 'r', 'g', 'G2').index(word)), jax.random.key(0))
  assert jax.tree.all(jax.tree.map(lambda a, b: bool(jnp.all(a == b)), new.state[0], after.state))
  assert float(new.info['matches']) == 1 and not bool(new.terminated)
  seen = new.observation.reshape(world.observation_columns, world.vocab_size)
  np.testing.assert_array_equal(seen.argmax(axis=1), after.observation)
  again = env.step(new.state, jnp.int32(2), jax.random.key(0))
  assert bool(again.terminated) and float(again.info['wins']) == 0  # out of turns: lost


def test_unknown_words_are_refused():
  with pytest.raises(ConfigError, match='words'):
    chosen_words(game=ROAD, words=('z',), max_turns=2)
