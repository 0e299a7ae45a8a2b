"""Memento: which case is taken is learnt from what episodes came to; the policy stays as it is.

https://arxiv.org/abs/2508.16153
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.memento import memento
from rlx.controllers import cases
from rlx.envs.worlds.casebook import casebook
from rlx.models.case_value import case_value
from rlx.rollout.cases import with_case

WORLD = casebook(parts=3, letters=4, replies=3, turns=2, one_rule=True, told=0.0, held_out_share=0.3)
VALUE = case_value(num_parts=3, hidden=())
PAID = 4.0

# What a value that has learnt says: of the parts the first counts, and a case has to have been paid.
LEARNT = {'layers': [{'kernel': jnp.array([[3.0], [0.0], [0.0], [PAID]]), 'bias': jnp.array([-5.0])}]}


def bank():
  """A case alike in two parts that do not count, one alike in the first alone, and one that failed."""
  empty = cases.init_cases(num_cases=4, num_parts=3, plan_turns=2)
  parts = jnp.array([[1, 2, 3], [0, 1, 1], [0, 2, 3]])
  plans = jnp.array([[0, 1], [2, 2], [1, 1]])
  return cases.write_cases(empty, parts, plans, jnp.array([1.0, 1.0, 0.0]), jnp.ones(3, bool))


TASK = {'parts': jnp.array([[0, 2, 3]]), 'prompts': jnp.zeros((1, 9), jnp.int32)}


def taken(retrieval, use=True):
  shown = with_case(
      WORLD, VALUE, LEARNT, bank(), TASK, retrieval=retrieval, noise=jnp.zeros((1, 4)), use=jnp.array([use])
  )
  return WORLD.decode(shown['prompts'][0]), np.asarray(shown['case_features'][0]), bool(shown['case_used'][0])


def test_a_learnt_value_takes_the_case_that_helps_and_similarity_the_one_that_looks_alike():
  prompt, features, used = taken(cases.by_value)
  assert prompt == 'abbww' and used
  np.testing.assert_array_equal(features, [1, 0, 0, 1])
  prompt, features, _ = taken(lambda features, odds: cases.by_similarity(features, odds, success=1.0))
  assert prompt == 'bcduv', 'two of three parts, and it succeeded'
  np.testing.assert_array_equal(features, [0, 1, 1, 1])
  prompt, _, used = taken(cases.by_value, use=False)
  assert prompt == '_____' and not used


def test_the_value_gets_the_cross_entropy_of_episodes_with_a_case_alone():
  features = jnp.array([[1.0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0]])
  batch = {
      'case_features': features, 'case_used': jnp.array([True, True, False]),
      'rewards': jnp.array([1.0, 0.0, 1.0]),
  }
  algorithm = memento(lambda *_: None, lambda models, batch, key: batch, VALUE)
  batch = algorithm.advantage({}, batch, None)
  loss = lambda params: algorithm.loss({'case_value': params}, batch, None)[0]
  value, slope = jax.value_and_grad(loss)(LEARNT)
  q = 1 / (1 + np.exp(-np.array([2.0, -1.0])))  # 3 + 4 - 5, and 4 - 5
  np.testing.assert_allclose(value, -(np.log(q[0]) + np.log(1 - q[1])) / 2, rtol=1e-5)
  np.testing.assert_allclose(slope['layers'][0]['bias'][0], ((q[0] - 1) + q[1]) / 2, rtol=1e-5)


def test_the_bank_keeps_the_newest_and_knows_how_many_it_has():
  full = bank()
  np.testing.assert_array_equal(cases.known_cases(full), [True, True, True, False])
  one = lambda *x: jnp.array([x, x])
  after = cases.write_cases(full, one(3, 3, 3), one(0, 0), jnp.array([0.5, 0.25]), jnp.ones(2, bool))
  np.testing.assert_array_equal(after['paid'], [0.25, 1.0, 0.0, 0.5])
  np.testing.assert_array_equal(after['parts'][0], [3, 3, 3])
  assert cases.known_cases(after).all()


def test_what_was_done_is_read_off_the_episode():
  tokens = jnp.asarray(WORLD.encode('_____>abcv.b.w'))[None]  # v, something else, w
  mask = (jnp.arange(14) == 9) | (jnp.arange(14) == 11) | (jnp.arange(14) == 13)
  np.testing.assert_array_equal(WORLD.plans_of({'tokens': tokens, 'action_mask': mask[None]}), [[1, 2]])


def test_an_episode_of_which_nobody_knows_what_it_came_to_is_no_case_and_teaches_nothing():
  full, nobody = bank(), jnp.array([False, True])
  one = lambda *x: jnp.array([x, x])
  after = cases.write_cases(full, one(3, 3, 3), one(0, 0), jnp.array([jnp.nan, 0.25]), nobody)
  np.testing.assert_array_equal(after['paid'], full['paid'].at[3].set(0.25))
  assert after['written'] == full['written'] + 1

  def slope(rewards):
    rows = len(rewards)
    batch = {
        'case_features': jnp.array([[1.0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 0]])[:rows],
        'case_used': jnp.ones(rows, bool), 'rewards': jnp.array(rewards),
    }
    algorithm = memento(lambda *_: None, lambda models, batch, key: batch, VALUE)
    batch = algorithm.advantage({}, batch, None)
    # A mean over rows: of three, one of which counts for nothing, as of the two.
    return jax.grad(lambda params: algorithm.loss({'case_value': params}, batch, None)[0])(LEARNT)

  jax.tree.map(
      lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), slope([1.0, 0.0, jnp.nan]), slope([1.0, 0.0])
  )
