"""Diversity as a learnt classifier of pairs sees it. https://arxiv.org/abs/2509.02534"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold
from rlx.evaluation.gold import found_meanings
from rlx.rewards.diversity import distinct, unlike
from rlx.rewards.gold import distinct_meanings, distinct_strings, rightness
from rlx.rollout.gold import twin_pairs

TWINS, POLICY = gold.Twins(), gold.LogLinear()
# One prompt: meaning 0 in two wordings, meaning 1 in two, meaning 2, which is wrong, in one.
WORLD = gold.World(
    features=jnp.array([[[0.0, 5.0], [0.0, -5.0], [1.0, 0.0], [1.0, 1.0], [2.0, 0.0]]]),
    gold=jnp.array([[1.0, 1.0, 1.0, 1.0, -1.0]]), base=jnp.log(jnp.array([[0.4, 0.2, 0.1, 0.1, 0.2]])),
    meanings=jnp.array([[0, 0, 1, 1, 2]]),
)
WORLDS = gold.Worlds(make=lambda key: WORLD)
TAUGHT = {'scales': jnp.array([2.0, -30.0]), 'bias': jnp.float32(1.0), 'world': WORLD}  # of the first alone
UNTAUGHT = {'scales': jnp.zeros(2), 'bias': jnp.float32(0.0), 'world': WORLD}
SAID = jnp.array([0, 0, 1, 2, 4])
ROWS = {**gold.rows_of(jnp.zeros(5, jnp.int32), SAID), 'groups': jnp.zeros(5, jnp.int32)}


def paid(reward, twins=TAUGHT):
  return reward({'world': WORLD, 'twins': twins}, ROWS, jax.random.key(0))['rewards']


def test_another_wording_is_no_other_meaning():
  by_meaning = paid(distinct_meanings(WORLDS, TWINS, bar=0.0))
  np.testing.assert_allclose(by_meaning, [2 / 4, 2 / 4, 2 / 4, 4 / 4, 0], rtol=1e-6)
  by_string = paid(distinct_strings(WORLDS, bar=0.0))
  np.testing.assert_allclose(by_string, [3 / 4, 3 / 4, 4 / 4, 4 / 4, 0], rtol=1e-6)
  np.testing.assert_allclose(paid(rightness(WORLDS, bar=0.0)), [1, 1, 1, 1, 0])
  untaught = paid(distinct_meanings(WORLDS, TWINS, bar=0.0), UNTAUGHT)
  np.testing.assert_allclose(untaught, [1, 1, 1, 1, 0])  # it tells everything apart: quality alone


def test_verdicts_that_are_a_partition_are_worth_what_it_is():
  classes, groups = jnp.array([0, 1, 0, 2, 2, 2]), jnp.array([0, 0, 0, 3, 3, 5])
  alike = classes[:, None] == classes[None]
  np.testing.assert_allclose(unlike(alike, groups), distinct(classes, groups), rtol=1e-6)


def test_pairs_are_labelled_by_their_meaning():
  rows, _ = twin_pairs(WORLDS, batch_size=2000).draw({'world': WORLD}, {}, jax.random.key(0))
  _, first, second = np.asarray(rows['tokens']).T
  meanings = np.asarray(WORLD.meanings)[0]
  np.testing.assert_array_equal(rows['preferred'], meanings[first] == meanings[second])
  by_chance = 0.6**2 + 0.2**2 + 0.2**2
  assert np.mean(rows['preferred']) == pytest.approx((1 + by_chance) / 2, abs=0.04)
  odds = np.asarray(TWINS.apply(TAUGHT, rows))
  np.testing.assert_array_equal(odds > 0, rows['preferred'])


def test_what_is_found_is_summed():
  evaluation = found_meanings(WORLDS, POLICY, TWINS, bar=0.0, tries=2)
  ask = lambda twins: evaluation.read(
      evaluation.ask({'world': WORLD, 'policy': POLICY.init(WORLD), 'twins': twins}, {}))[0]
  told = ask(TAUGHT)
  assert told['meanings'] == pytest.approx((1 - 0.4**2) + (1 - 0.8**2), rel=1e-5)
  assert (told['right'], told['passed']) == pytest.approx((0.8, 1 - 0.2**2), rel=1e-5)
  assert told['accuracy'] == 1 and ask(UNTAUGHT)['accuracy'] == 0.5
