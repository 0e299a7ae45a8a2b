"""Learning progress, mixtures over it, and the curriculum of another learner: by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import progress

FIT = dict(window=40, nums=(1, 2), em_steps=20)


def test_progress_is_how_much_the_nearest_task_before_differs():
  tasks = jnp.array([[0.1, 0.1], [0.9, 0.9], [0.2, 0.1], [0.9, 0.8]])
  rewards = jnp.array([0.0, 0.5, 0.3, 0.1])
  before = jnp.tril(jnp.ones((4, 4), bool), -1)
  found = progress.learning_progress(tasks, rewards, tasks, rewards, before)
  np.testing.assert_allclose(found, [0, 0.5, 0.3, 0.4], rtol=1e-6)


@pytest.mark.slow
def test_updates_do_not_depend_on_how_episodes_are_split():
  keys = jax.random.split(jax.random.key(0), 2)
  tasks, rewards = jax.random.uniform(keys[0], (40, 2)), jax.random.uniform(keys[1], (40,))
  whole = progress.init(2, capacity=60, max_components=2)
  parts = whole
  whole = progress.update(whole, tasks, rewards, keys[0], **FIT)
  for i in range(0, 40, 10):
    assert parts.mixture.progress.sum() == 0, 'too few episodes for a mixture'
    parts = progress.update(parts, tasks[i : i + 10], rewards[i : i + 10], keys[0], **FIT)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), whole, parts)
  assert whole.episodes == 40 and whole.mixture.progress.sum() > 0


def two_heaps():
  """100 points at (0.2, 0.2) with progress 0.1, and 50 at (0.8, 0.7) with progress 0.6."""
  centres = jnp.concatenate([
      jnp.broadcast_to(jnp.array([0.2, 0.2, 0.1]), (100, 3)),
      jnp.broadcast_to(jnp.array([0.8, 0.7, 0.6]), (50, 3)),
  ])
  return centres + 0.03 * jax.random.normal(jax.random.key(0), centres.shape)


@pytest.mark.slow
def test_a_mixture_finds_two_heaps():
  points = two_heaps()
  found = progress.fit(points, jax.random.key(1), nums=(1, 2), max_components=4, em_steps=60)
  assert (found.progress > 0).tolist() == [True, True, False, False], 'one Gaussian fits worse'
  order = jnp.argsort(found.progress[:2])
  np.testing.assert_allclose(found.means[order[0]], points[:100].mean(axis=0), atol=1e-3)
  np.testing.assert_allclose(found.means[order[1]], points[100:].mean(axis=0), atol=1e-3)
  spread = np.cov(points[:100].T, bias=True)
  np.testing.assert_allclose(found.covariances[order[0]], spread + 1e-4 * np.eye(3), atol=2e-4)


def test_more_components_than_heaps_cost_more_than_they_explain():
  alone = two_heaps()[:100]
  found = progress.fit(alone, jax.random.key(1), nums=(1, 3), max_components=3, em_steps=30)
  assert (found.progress > 0).sum() == 1


@pytest.mark.slow
def test_tasks_are_drawn_in_proportion_to_progress():
  mixture = progress.fit(two_heaps(), jax.random.key(1), nums=(2,), max_components=3, em_steps=60)
  tasks, components = progress.act(mixture, jax.random.key(2), 4000, explore=0.25)
  shares = np.bincount(np.asarray(components) + 1, minlength=4) / 4000
  np.testing.assert_allclose(shares[0], 0.25, atol=0.03)
  expected = 0.75 * np.asarray(mixture.progress) / mixture.progress.sum()
  np.testing.assert_allclose(shares[1:], expected, atol=0.03)
  best = int(jnp.argmax(mixture.progress))
  np.testing.assert_allclose(tasks[components == best].mean(axis=0), [0.8, 0.7], atol=0.02)
  assert ((tasks >= 0) & (tasks <= 1)).all() and tasks[components == -1].std() > 0.25


def test_without_progress_all_tasks_are_random():
  nothing = progress.init(2, capacity=4, max_components=3).mixture
  tasks, components = progress.act(nothing, jax.random.key(0), 50, explore=0.0)
  assert (components == -1).all() and jnp.isfinite(tasks).all() and tasks.std() > 0.2


def stages(progress_of):
  """Mixtures of two components with these numbers of progress; the means are the number of the stage."""
  num = len(progress_of)
  return progress.Mixture(
      means=jnp.broadcast_to(jnp.arange(float(num))[:, None, None], (num, 2, 2)),
      covariances=jnp.broadcast_to(0.01 * jnp.eye(2), (num, 2, 2, 2)), progress=jnp.array(progress_of),
  )


def test_a_curriculum_keeps_what_there_was_progress_in():
  found = progress.curriculum(
      stages([[0.1, 0.0], [0.5, 0.1], [0.1, 0.1], [0.3, 0.4]]),
      jnp.array([[0.9, 0.9], [0.2, 0.8], [0.5, 0.5], [0.4, 0.8]]), min_progress=0.2,
  )
  assert found.length == 2
  np.testing.assert_array_equal(found.mixtures.means[:2, 0, 0], [1, 3])
  np.testing.assert_allclose(found.mixtures.progress[:2], [[0.5, 0], [0.3, 0.4]])
  np.testing.assert_allclose(found.rewards[:2], [0.2, (0.3 * 0.4 + 0.4 * 0.8) / 0.7], rtol=1e-6)


def test_a_component_that_nobody_tried_is_left_out():
  rewards = jnp.array([[jnp.nan, 0.3], [jnp.nan, jnp.nan]])
  found = progress.curriculum(stages([[0.5, 0.5], [0.5, 0.5]]), rewards, min_progress=0.2)
  assert found.length == 1 and found.mixtures.progress[0].tolist() == [0, 0.5]
  np.testing.assert_allclose(found.rewards[0], 0.3, rtol=1e-6)


def test_the_best_of_the_nearest_lends_its_curriculum():
  past = jnp.array([[0.0, 0.0], [0.2, 0.0], [1.0, 1.0], [0.1, 0.1]])
  scores = jnp.array([0.1, 0.6, 0.9, 0.5])
  assert progress.nearest(jnp.zeros(2), past, scores, num=1) == 0
  assert progress.nearest(jnp.zeros(2), past, scores, num=3) == 1
  assert progress.nearest(jnp.zeros(2), past, scores, num=4) == 2


@pytest.mark.slow
def test_a_stage_ends_when_as_much_is_earned_as_the_expert_did():
  expert = progress.curriculum(
      stages([[0.5, 0.4], [0.3, 0.4]]), jnp.array([[0.4, 0.6], [0.9, 0.9]]), min_progress=0.2
  )
  state = progress.again(progress.init(1, capacity=40, max_components=2), expert, patience=4)
  assert progress.joined(state).progress.tolist() == pytest.approx([0.5, 0.4, 0, 0])

  def taught(state, rewards, components, tolerance=1.0):
    return progress.again_update(
        state, jnp.zeros((4, 1)), jnp.array(rewards), jnp.array(components), jax.random.key(0),
        tolerance=tolerance, **FIT,
    )

  few = taught(state, [1.0, 1.0, 1.0, 1.0], [0, 1, -1, 2])
  assert few.stage == 0 and few.count == 2, 'random tasks and those of its own mixture do not count'
  poor = taught(few, [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0])
  assert poor.stage == 0, 'the mean of the last four is 0.1, and 0.49 is wanted'
  assert taught(few, [0.1, 0.1, 0.1, 0.1], [0, 0, 0, 0], tolerance=0.2).stage == 1
  good = taught(poor, [0.5, 0.5, 0.5, 0.48], [0, 0, 0, 0])
  assert good.stage == 1 and good.count == 0
  np.testing.assert_allclose(progress.joined(good).progress[:2], [0.3, 0.4], rtol=1e-6)
  last = taught(good, [1.0, 1.0, 1.0, 1.0], [0, 0, 0, 0])
  assert last.stage == 1, 'there is no other one'
  assert last.own.episodes == 16


def test_an_expert_without_progress_is_not_followed():
  expert = progress.curriculum(stages([[0.1, 0.1]]), jnp.array([[0.4, 0.6]]), min_progress=0.2)
  state = progress.again(progress.init(1, capacity=4, max_components=2), expert, patience=4)
  assert expert.length == 0 and progress.joined(state).progress.sum() == 0


def test_what_cannot_be_is_refused():
  with pytest.raises(ValueError, match='capacity=0'):
    progress.init(2, capacity=0, max_components=2)
  with pytest.raises(ValueError, match=r'nums=\(2, 5\)'):
    progress.fit(two_heaps(), jax.random.key(0), nums=(2, 5), max_components=4, em_steps=1)
