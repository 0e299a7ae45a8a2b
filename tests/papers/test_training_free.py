"""Training-Free GRPO: lessons are added, changed and deleted by what episodes came to; no parameter moves.

https://arxiv.org/abs/2510.08191
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.advantages import groups as group_advantages
from rlx.controllers import experience
from rlx.envs.worlds.playbook import playbook

SIZES = dict(situations=4, replies=3, turns=2, each=1.0, held_out_share=0.2)
WORLD = playbook(**SIZES, one_rule=True, told=0.0)


def memory(**lessons):
  """Lessons by their situations, `a` to `d`, in the first places."""
  keys = ['abcd'.index(key) for key in lessons] + [-1] * (4 - len(lessons))
  values = [*lessons.values(), *[-1] * (4 - len(lessons))]
  return {
      'keys': jnp.array(keys, jnp.int32), 'values': jnp.array(values, jnp.int32),
      'edits': jnp.zeros(3, jnp.int32),
  }


def read(lessons):
  """{situation: reply} of a memory."""
  pairs = zip(np.asarray(lessons['keys']), np.asarray(lessons['values']), strict=True)
  return {'abcd'[key]: int(value) for key, value in pairs if key >= 0}


# Two groups of three: in the first `a` was met with 1 twice, which paid, and once with 0; in the second
# nobody was better than the others, and it says nothing.
KEYS = jnp.array([[-1, 0, 1], [-1, 0, 1], [-1, 0, 1], [-1, 2, 2], [-1, 2, 2], [-1, 2, 2]])
VALUES = jnp.array([[-1, 1, 2], [-1, 1, 2], [-1, 0, 2], [-1, 0, 1], [-1, 0, 1], [-1, 2, 2]])
REWARDS, GROUPS = jnp.array([1.0, 1.0, 0.4, 0.5, 0.5, 0.5]), jnp.array([0, 0, 0, 1, 1, 1])


def test_a_pair_is_worth_what_its_episodes_were_better_than_their_group():
  advantages = group_advantages.centred(REWARDS, GROUPS)
  worth, counts = experience.pair_values(advantages, KEYS, VALUES, sizes=(4, 3))
  np.testing.assert_allclose(worth[0], [-0.4, 0.2, 0], atol=1e-6)
  np.testing.assert_allclose(worth[1:], 0, atol=1e-6)  # `b` was met alike by all, `c` for nothing
  np.testing.assert_array_equal(counts, [[1, 2, 0], [0, 0, 3], [2, 2, 1], [0, 0, 0]])  # episodes, not tokens


def edited(before, worth, *, margin=0.1, least=1):
  worth = jnp.array(worth)
  after = experience.edit_lessons(before, worth, jnp.full(worth.shape, 2), margin=margin, least=least)
  return read(after), np.asarray(after['edits']).tolist()


NOTHING = [0.0, 0.0, 0.0]


def test_lessons_are_added_changed_and_deleted():
  assert edited(memory(), [[-0.4, 0.2, 0.0], NOTHING, NOTHING, NOTHING]) == ({'a': 1}, [1, 0, 0])
  pays = [[-0.4, 0.2, 0.0], NOTHING, NOTHING, NOTHING]
  assert edited(memory(a=0, b=2), pays) == ({'a': 1, 'b': 2}, [0, 1, 0])
  assert edited(memory(a=1, b=2), pays) == ({'a': 1, 'b': 2}, [0, 0, 0]), 'what is right stays'
  harms = [[-0.4, 0.05, 0.0], NOTHING, NOTHING, NOTHING]  # what else there is does not pay enough
  assert edited(memory(a=0, b=2), harms) == ({'b': 2}, [0, 0, 1])
  several = [[0.3, 0, 0], NOTHING, [0, 0, 0.2], [0, 0.5, 0]]
  assert edited(memory(b=2), several) == ({'b': 2, 'd': 1, 'a': 0, 'c': 2}, [3, 0, 0])


def test_with_nothing_learnt_from_comparisons_there_are_no_lessons():
  assert edited(memory(), [[-0.4, 0.2, 0.0]] * 4, margin=2.0) == ({}, [0, 0, 0])
  assert edited(memory(), [[-0.4, 0.2, 0.0]] * 4, least=3) == ({}, [0, 0, 0])


def test_a_playbook_is_read_in_the_prompt_and_pairs_off_the_episode():
  problems = WORLD.sample(jax.random.key(0), 3, False)
  lessons = memory(c=2, a=0)
  each = lambda x: jnp.broadcast_to(x, (3, 4))
  shown = WORLD.with_lessons(problems, each(lessons['keys']), each(lessons['values']))
  assert WORLD.decode(shown['prompts'][0]).startswith('cwau____>')
  assert WORLD.decode(problems['prompts'][0]).startswith('________>')
  # of `..>b`, v, `d`, w: the reply to b was v, and to d it was w
  tokens = jnp.asarray(WORLD.encode('________>bvdw'))[None]
  mask = jnp.array([[False] * 10 + [True, False, True]])
  keys, values = WORLD.pairs_of({'tokens': tokens, 'action_mask': mask})
  np.testing.assert_array_equal(keys[0], [-1] * 10 + [1, -1, 3])
  np.testing.assert_array_equal(values[0], [-1] * 10 + [1, -1, 2])


def test_the_school_has_a_rule_for_each_problem_and_tells_what_is_right():
  school = playbook(**SIZES, one_rule=False, told=1.0)
  problems = jax.device_get(school.sample(jax.random.key(1), 64, False))
  for prompt, rule in zip(problems['prompts'], problems['rule'], strict=True):
    book = school.decode(prompt)[:8]
    right = {key: 'uvw'[rule['abcd'.index(key)]] for key in 'abcd'}
    assert dict(zip(book[::2], book[1::2], strict=True)) == right
  assert len({tuple(rule) for rule in problems['rule']}) > 20
