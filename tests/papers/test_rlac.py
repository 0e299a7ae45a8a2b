"""RLAC: one check for each answer, which a critic names. https://arxiv.org/abs/2511.01758"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import gold, rubrics
from rlx.evaluation.gold import checked
from rlx.rewards.gold import all_checks, criticised

# One prompt, four answers, three checks.
CHECKS = jnp.array([[[1, 1, 1], [0, 1, 1], [1, 0, 0], [0, 0, 1]]], bool)
WORLD = gold.World(
    features=jnp.eye(4)[None], gold=jnp.zeros((1, 4)), base=jnp.log(jnp.array([[0.4, 0.3, 0.2, 0.1]])),
    checks=CHECKS,
)
WORLDS = gold.Worlds(make=lambda key: WORLD)
CRITIC = gold.Critic()
SURE = 50.0 * (1.0 - CHECKS[0])  # names what fails
ANSWERS = jnp.tile(jnp.arange(4), 50)
ROWS = {'policy': gold.rows_of(jnp.zeros(200, jnp.int32), ANSWERS)}


def scored(directions):
  models = {'world': WORLD, 'critic': {'directions': directions, 'world': WORLD}}
  rows = criticised(WORLDS, CRITIC, of='policy', to='critic')(models, ROWS, jax.random.key(0))
  return models, rows['policy'], rows['critic']


def test_a_critic_that_finds_what_fails_lets_nothing_pass_but_what_passes_all():
  models, answers, critiques = scored(SURE)
  np.testing.assert_array_equal(answers['rewards'], ANSWERS == 0)
  np.testing.assert_array_equal(critiques['rewards'], 1 - answers['rewards'])
  named = np.asarray(critiques['tokens'])[:, 2]
  assert set(named[ANSWERS == 2]) == {1, 2} and set(named[ANSWERS == 1]) == {0}
  np.testing.assert_array_equal(critiques['tokens'][:, :2], ROWS['policy']['tokens'])


def test_by_chance_an_answer_earns_the_share_that_it_passes():
  """In the mean, what all checks say; so a critic that names by chance is a cheaper estimate of that."""
  models, answers, critiques = scored(jnp.zeros((4, 3)))
  exact = all_checks(WORLDS)(models, ROWS['policy'], jax.random.key(0))['rewards']
  np.testing.assert_allclose(exact[:4], [1, 2 / 3, 1 / 3, 1 / 3], rtol=1e-6)
  for y in range(4):
    mine = np.asarray(ANSWERS) == y
    assert abs(np.mean(answers['rewards'][mine]) - exact[y]) < 0.2  # of 50: three deviations
  np.testing.assert_allclose(critiques['sampler_logprobs'][:, 2], -np.log(3), rtol=1e-6)


def test_critiques_are_scored_as_they_were_drawn():
  models, _, critiques = scored(jax.random.normal(jax.random.key(1), (4, 3)))
  logprobs, entropy = CRITIC.score(models['critic'], critiques)
  np.testing.assert_allclose(logprobs, critiques['sampler_logprobs'], rtol=1e-5)
  assert not logprobs[:, :2].any() and (entropy[:, 2] > 0).all()


def test_what_passes_is_summed_over_answers():
  policy = gold.LogLinear()
  evaluation = checked(WORLDS, policy)
  told = evaluation.read(evaluation.ask({'world': WORLD, 'policy': policy.init(WORLD)}, {}))[0]
  np.testing.assert_allclose([told['all'], told['share']], [0.4, 0.4 + 0.2 + 0.2 / 3 + 0.1 / 3], rtol=1e-5)


def test_a_share_of_the_answers_passes_each_check():
  worlds = rubrics.rubric_worlds(
      num_prompts=10, num_answers=20, width=3, num_checks=4, passed=0.8, hidden=0.3
  )
  world = worlds.make(jax.random.key(0))
  np.testing.assert_allclose(world.checks.mean(axis=(0, 1)), 0.8, atol=0.01)
  order = jnp.argsort(world.gold, axis=1)
  passed = jnp.take_along_axis(world.checks.sum(axis=2), order, axis=1)
  assert (jnp.diff(passed, axis=1) >= 0).all()


def test_what_helps_with_the_other_checks_fails_the_last_one_where_the_reference_seldom_goes():
  sizes = dict(num_prompts=10, num_answers=20, width=3, num_checks=4, passed=0.8, hidden=0.3, bound=1.0)
  make = lambda lure, shy: rubrics.luring_worlds(**sizes, lure=lure, shy=shy).make(jax.random.key(0))
  plain, luring = make(0.0, 0.0), make(9.0, 3.0)
  first = luring.features[..., 0]
  np.testing.assert_array_equal(luring.checks[..., -1], first < 1)
  np.testing.assert_allclose(luring.checks[..., :-1].mean(axis=(0, 1)), 0.8, atol=0.01)
  assert luring.checks[..., :-1][first >= 1].all() and not plain.checks[..., :-1][first >= 1].all()
  beyond = [jnp.sum(jnp.where(first >= 1, jnp.exp(world.base), 0)) for world in (plain, luring)]
  assert beyond[1] < beyond[0] / 10
