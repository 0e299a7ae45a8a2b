"""WebThinker: pairs prefer right over wrong and then fewer calls, and drafts leave the context as it is.

https://arxiv.org/abs/2504.21776
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.worlds.linked_pages import linked_pages
from rlx.errors import ConfigError
from rlx.rewards.of_learners import best_and_worst
from rlx.rewards.of_world import right_with_fewer

# Three questions: two right episodes; a right one and two short wrong ones; two wrong ones.
GROUPS = jnp.array([0, 0, 1, 1, 1, 2, 2])
SOLVED = jnp.array([1.0, 1, 1, 0, 0, 0, 0])
CALLS = jnp.array([9.0, 7, 9, 1, 3, 1, 4])


def pairs(weight):
  """Calls of the preferred and of the other episode of each pair that counts, question by question."""
  rows = {
      'rewards': SOLVED, 'groups': GROUPS, 'episode/success': SOLVED, 'episode/calls': CALLS,
      'tokens': CALLS[:, None].astype(jnp.int32),
  }
  scored = right_with_fewer(of='calls', weight=weight)({}, rows, jax.random.key(0))
  compared = best_and_worst(scored)
  counts = np.asarray(compared['weights']) > 0
  return scored['rewards'], compared['tokens'][counts, 0].reshape(-1, 2).tolist()


def test_right_is_preferred_to_wrong_and_then_the_fewer_calls():
  rewards, compared = pairs(1.0)
  np.testing.assert_allclose(rewards, [1 / 10, 1 / 8, 1 / 10, 0, 0, 0, 0], rtol=1e-6)
  assert compared == [[7, 9], [9, 1]]  # a wrong episode of one call is no match for a right one of nine


def test_without_the_weight_of_calls_right_ones_are_alike():
  rewards, compared = pairs(0.0)
  np.testing.assert_array_equal(rewards, SOLVED)
  assert compared == [[9, 1]]


def test_rows_without_a_reward_or_a_count_are_told():
  rows = {'rewards': jnp.array([jnp.nan, 1]), 'episode/success': jnp.ones(2), 'episode/calls': jnp.ones(2)}
  rewards = right_with_fewer(of='calls', weight=1.0)({}, rows, jax.random.key(0))['rewards']
  np.testing.assert_array_equal(rewards, [jnp.nan, 0.5])
  with pytest.raises(ConfigError, match=r"no \['clicks'\]"):
    right_with_fewer(of='clicks', weight=1.0)({}, rows, jax.random.key(0))


WORLD = linked_pages(num_pages=4, max_links=1, sections=2, webs=4, stray=0.0, held_out_share=0.3)
# Topic A stands on page 2 = d, from which the link goes on to page 0 = a, and astray to page 3 = e.
PROBLEM = {
    'found': jnp.array([2, 0, 1, 3]), 'links': jnp.array([1, 3, 0, 2]), 'astray': jnp.array([3, 2, 3, 0]),
    'bodies': jnp.array([111, 222, 333, 444]), 'topic': jnp.array([0, 1]), 'hops': jnp.array([1, 0]),
    'ways': jnp.array([[2, 0], [0, 0]]), 'whims': jnp.zeros(32, bool),
}
CALLS_TO_MAKE = ('1sA', 'ca', '1cd', '0ca', '0w', 'sB', 'ca', 'w', '=')
ACT = jax.jit(WORLD.act)


def told(problem, calls):
  """What is read behind each call, the last reply, and the state behind it."""
  state, heard, reply = WORLD.start(problem), [], None
  for call in calls:
    action = jnp.pad(jnp.asarray(WORLD.encode(call)), (0, 4 - len(call)))
    reply = ACT(state, action, jnp.int32(len(call)), jax.random.key(0))
    state = reply.state
    heard.append(WORLD.decode(reply.observation[: reply.length]))
  return heard, reply, state


def test_a_report_is_drafted_beside_the_context():
  heard, reply, state = told(PROBLEM, CALLS_TO_MAKE)
  # What was not found cannot be clicked on, and a draft is answered by nothing.
  assert heard[:-1] == [':d', '!', ':ae', ':be', '', ':a', ':be', '']
  assert state['report'].tolist() == [111, 111] and float(reply.reward) == 1 and bool(reply.ended)
  assert float(reply.info['calls']) == 8
  others = {**PROBLEM, 'bodies': jnp.array([5, 6, 7, 8])}
  again, _, other = told(others, CALLS_TO_MAKE)
  assert again == heard, 'what stands in the report is nowhere in the context'
  assert other['report'].tolist() == [5, 5]


def test_a_wrong_page_and_a_missing_section_are_wrong():
  assert float(told(PROBLEM, ('sA', 'cd', 'w', 'sB', 'ca', 'w', '='))[1].reward) == 0
  assert float(told(PROBLEM, ('sA', 'cd', 'ca', 'w', '='))[1].reward) == 0
