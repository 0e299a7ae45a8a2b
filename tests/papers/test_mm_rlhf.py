"""MM-RLHF: β grows with the margin of a reward model, also of one that writes a critique and then scores."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import gold, weighing
from rlx.losses import preference
from rlx.losses.comparisons import both
from rlx.rollout.pairs import with_margins

SCALED = partial(preference.scaled_beta, beta=0.1, share=0.8, rate=0.5)
MARGINS = jnp.array([-50.0, -1.0, 0.0, 2.0, 50.0])


def test_beta_grows_with_the_margin_between_its_bounds():
  by_hand = [0.02, 0.1 * (1.8 - 0.8 * np.exp(0.5)), 0.1, 0.1 * (1.8 - 0.8 * np.exp(-1.0)), 0.18]
  np.testing.assert_allclose(SCALED(MARGINS), by_hand, rtol=1e-6)
  np.testing.assert_allclose(preference.scaled_beta(MARGINS, beta=0.1, share=0.0, rate=0.5), 0.1, rtol=1e-6)
  assert not jax.grad(lambda x: SCALED(x).sum())(MARGINS).any()


@pytest.mark.parametrize('wrong', [{'share': 1.1}, {'rate': 0.0}, {'beta': 0.0}])
def test_what_makes_no_beta_is_refused(wrong):
  with pytest.raises(ValueError):
    preference.scaled_beta(MARGINS, **{'beta': 0.1, 'share': 0.5, 'rate': 0.5, **wrong})


def test_where_the_policy_is_at_its_reference_beta_is_the_weight_of_a_pair():
  loss = partial(preference.dynamic, beta=0.1, share=0.8, rate=0.5)
  zeros = jnp.zeros(5)
  slope = jax.grad(lambda chosen: loss(chosen, zeros, MARGINS).sum())(zeros)
  np.testing.assert_allclose(slope, -SCALED(MARGINS) / 2, rtol=1e-6)


def test_a_reward_model_that_learnt_from_labels_says_the_margin_of_each_pair():
  world = gold.World(
      features=jnp.eye(3)[None], gold=jnp.arange(3, dtype=jnp.float32)[None], base=jnp.zeros((1, 3))
  )
  rows = gold.rows_of(jnp.zeros(4, jnp.int32), jnp.array([2, 0, 1, 2]))  # the second is the wrong way round
  judge = {'direction': jnp.array([0.0, 1.0, 3.0]), 'world': world}
  rollout = with_margins(lambda models, world, key: (rows, world), gold.Linear())
  batch, _ = rollout({'judge': judge}, {}, jax.random.key(0))
  np.testing.assert_array_equal(batch['pair_reward_margin'], [3, 3, -2, -2])


def test_scores_behind_a_critique_are_a_margin():
  """A judge of `weighing.weighed_by_scores` writes principle and critique, and then two scores."""
  task = weighing.weighed_by_scores(modulus=7, length=3, kinds=2, held_out_share=0.1)
  problems = task.sample(jax.random.key(0), 16, held_out=False)
  scores = weighing.scores_of(problems['solutions'])
  np.testing.assert_array_equal(scores, problems['worth'])  # who criticises right scores right
  chosen = jnp.argmax(scores, axis=1)
  margin = jnp.take_along_axis(scores @ jnp.array([[1.0, -1], [-1, 1]]), chosen[:, None], axis=1)[:, 0]
  assert (SCALED(margin) > 0.1).all() and (SCALED(-margin) < 0.1).all()
  assert both(margin, margin).shape == (32,)
