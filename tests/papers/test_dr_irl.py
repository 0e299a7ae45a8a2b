"""Rewards from demonstrations, and samples that weigh by difficulty. https://arxiv.org/abs/2503.18991"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold
from rlx.evaluation.gold import by_category
from rlx.losses.weights import scaled_by_difficulty
from rlx.rewards.gold import as_shown
from rlx.rollout.gold import against_shown

POLICY, JUDGE = gold.LogLinear(), gold.Linear()
WORLDS = gold.tailed_worlds(
    sizes=(4, 1, 1), num_answers=8, width=3, hidden=0.0, shown=5, beta=0.2
)
WORLD = jax.jit(WORLDS.make)(jax.random.key(0))
SIGMA = lambda x: 1 / (1 + np.exp(-x))


def test_a_sample_far_from_what_was_shown_weighs_more_and_so_does_a_prompt_with_a_gap():
  similarities, gaps = np.array([1.0, 0.0, 0.0, -1.0]), np.array([0.0, 0.2, 2.0, 2.4])
  groups = jnp.array([0, 0, 2, 2])
  weights = scaled_by_difficulty(jnp.asarray(similarities), jnp.asarray(gaps), groups, deviation_max=100.0)
  hard = SIGMA(1 - similarities) / SIGMA(1.0)
  responsive = SIGMA(np.array([0.1, 0.1, 2.2, 2.2])) / SIGMA(1.15)
  np.testing.assert_allclose(weights, hard * responsive, rtol=1e-5)
  alike = scaled_by_difficulty(jnp.full(4, 0.3), jnp.full(4, 0.7), groups, deviation_max=1.0)
  np.testing.assert_allclose(alike, 1, rtol=1e-6)  # nothing to tell apart


def test_outliers_of_a_group_are_no_part_of_its_gap():
  gaps = jnp.array([0.0, 0.0, 3.0, 1.0, 1.0, 1.0])
  groups = jnp.array([0, 0, 0, 3, 3, 3])
  weights = scaled_by_difficulty(jnp.zeros(6), gaps, groups, deviation_max=1.5)
  np.testing.assert_allclose(weights, SIGMA(np.repeat([0.0, 1.0], 3)) / SIGMA(1.0), rtol=1e-5)


def test_categories_share_no_feature_and_experts_show_what_is_better():
  features, categories = np.asarray(WORLD.features), np.asarray(WORLD.categories)
  np.testing.assert_array_equal(categories, [0, 0, 0, 0, 1, 2])
  for category in range(3):
    own = np.zeros(9, bool)
    own[3 * category : 3 * category + 3] = True
    mine = features[categories == category]
    assert mine[..., own].all() and not mine[..., ~own].any()
  shown = np.take_along_axis(np.asarray(WORLD.gold), np.asarray(WORLD.shown), axis=1)
  assert shown.mean() > 0.8  # of deviations


@pytest.mark.parametrize('balanced', [True, False])
def test_demonstrations_are_the_better_ones_and_categories_come_as_often(balanced):
  models = {'world': WORLD, 'policy': POLICY.init(WORLD)}
  rollout = against_shown(WORLDS, POLICY, batch_size=4000, balanced=balanced)
  rows, _ = rollout.draw(models, {}, jax.random.key(0))
  prompts, answers = np.asarray(rows['tokens']).T
  of_category = np.bincount(np.asarray(WORLD.categories)[prompts[0::2]], minlength=3) / 2000
  expected = [1 / 3] * 3 if balanced else [4 / 6, 1 / 6, 1 / 6]
  np.testing.assert_allclose(of_category, expected, atol=0.04)
  shown = np.asarray(WORLD.shown)
  assert all(y in shown[x] for x, y in zip(prompts[0::2], answers[0::2], strict=True))
  np.testing.assert_array_equal(rows['weights'][0::2] > 0, answers[0::2] != answers[1::2])


def test_distances_are_from_the_demonstrations_for_the_prompt():
  direction = jnp.arange(9.0)
  rows = gold.rows_of(jnp.array([0, 4]), jnp.array([3, 5]))
  models = {'world': WORLD, 'judge': {'direction': direction, 'world': WORLD}}
  found = as_shown(WORLDS, JUDGE)(models, rows, jax.random.key(0))
  features, shown = np.asarray(WORLD.features), np.asarray(WORLD.shown)
  for i, (x, y) in enumerate([(0, 3), (4, 5)]):
    mine, wanted = features[x, y], features[x, shown[x]].mean(axis=0)
    assert found['rewards'][i] == pytest.approx(mine @ np.arange(9), rel=1e-4)
    assert found['gaps'][i] == pytest.approx((wanted - mine) @ np.arange(9), rel=1e-4, abs=1e-4)
    cosine = mine @ wanted / np.linalg.norm(mine) / np.linalg.norm(wanted)
    assert found['similarities'][i] == pytest.approx(cosine, rel=1e-4)


def test_gains_are_told_by_category():
  evaluation = by_category(WORLDS, POLICY, head=1)
  params = {'theta': jnp.linspace(-1, 1, 9), 'world': WORLD}
  told = evaluation.read(evaluation.ask({'world': WORLD, 'policy': params}, {}))[0]
  more = np.exp(np.asarray(POLICY.logprobs(params))) - np.exp(np.asarray(WORLD.base))
  gains = (more * np.asarray(WORLD.gold)).sum(axis=1)
  assert told == pytest.approx({'head': gains[:4].mean(), 'tail': gains[4:].mean()}, rel=1e-4)
