"""Secrets of RLHF II: the vote of several reward models. https://arxiv.org/abs/2401.06080"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.algorithms.bradley_terry import bradley_terry, votes
from rlx.envs import gold
from rlx.evaluation.gold import voted
from rlx.evaluation.preferences import area_under_curve
from rlx.models.gold import voters
from rlx.rollout.pairs import by_vote

ANSWERS = 5
WORLD = gold.World(
    features=jnp.eye(ANSWERS)[None], gold=jnp.arange(ANSWERS, dtype=jnp.float32)[None],
    base=jnp.full((1, ANSWERS), -np.log(ANSWERS), jnp.float32),
)
VOTERS = voters(gold.Worlds(make=lambda key: WORLD), num=2).functions
# What two members think of the answers: on average 0, 1, 2, 3, 4.
DIRECTION = jnp.array([[0.0, 2, 1, 4, 4], [0, 0, 3, 2, 4]])
MODELS = {'voters': {'direction': DIRECTION, 'world': WORLD}, 'world': WORLD}
PAIRS = np.array([[4, 0], [1, 2], [3, 2], [0, 3], [2, 0]])  # the second and fourth are the wrong way round
STRENGTH = np.array([4.0, -1, 1, -3, 2])


def rows():
  batch = gold.rows_of(jnp.zeros(PAIRS.size, jnp.int32), jnp.asarray(PAIRS.reshape(-1)))
  places = jnp.arange(PAIRS.size)
  return {**batch, 'groups': places // 2, 'preferred': places % 2 == 0}


def drawn(flips):
  rollout = by_vote(lambda models, world, key: (rows(), world), VOTERS, flips=flips)
  return rollout(MODELS, {}, jax.random.key(0))[0]


def test_the_weakest_share_changes_sides_and_without_it_nothing_does():
  np.testing.assert_allclose(VOTERS.strength(MODELS['voters'], rows()), STRENGTH)
  turned = drawn(0.4)
  expected = PAIRS.copy()
  expected[[1, 3]] = expected[[1, 3], ::-1]
  np.testing.assert_array_equal(turned['tokens'][:, 1].reshape(-1, 2), expected)
  np.testing.assert_array_equal(turned['preferred'], rows()['preferred'])
  assert (VOTERS.strength(MODELS['voters'], turned) > 0).all()
  jax.tree.map(np.testing.assert_array_equal, drawn(0.0), rows())


def test_strength_tells_wrong_labels():
  right = np.array([True, False, True, False, True])
  evaluation = voted(gold.Worlds(make=lambda key: WORLD), VOTERS)
  memory = {'comparisons': jax.tree.map(lambda x: x[None], rows())}
  told, _ = evaluation.read(jax.device_get(evaluation.ask(MODELS, memory)))
  assert told['auc'] == 1.0 and abs(told['wrong'] - 0.4) < 1e-6
  both = [(a, b) for a in STRENGTH[right] for b in (-1.0, 1.5)]
  by_hand = np.mean([(a > b) + 0.5 * (a == b) for a, b in both])
  assert area_under_curve(np.array([4.0, -1, 1, 1.5, 2]), right) == by_hand
  assert area_under_curve(STRENGTH, right | True) == 0.5


def test_each_member_learns_from_its_own_draw():
  """With a share of 1 the loss is the mean of what each costs alone; with less their gradients differ."""

  def value(algorithm, models):
    batch = algorithm.advantage(models, rows(), jax.random.key(3))
    return lambda direction: algorithm.loss(
        {**models, 'voters': {**models['voters'], 'direction': direction}}, batch, jax.random.key(4)
    )[0]

  rollout = lambda models, world, key: (rows(), world)
  alone = bradley_terry(rollout, gold.Linear())
  each = []
  for direction in DIRECTION:
    models = {'judge': {'direction': direction, 'world': WORLD}}
    each.append(alone.loss(models, alone.advantage(models, rows(), jax.random.key(0)), jax.random.key(0))[0])
  whole = value(votes(rollout, VOTERS, share=1.0), MODELS)
  np.testing.assert_allclose(whole(DIRECTION), np.mean(each), rtol=1e-6)
  same = jnp.zeros_like(DIRECTION)  # where members agree, only what they learn from tells them apart
  first, second = jax.grad(whole)(same)
  np.testing.assert_allclose(first, second, atol=1e-7)
  first, second = jax.grad(value(votes(rollout, VOTERS, share=0.5), MODELS))(same)
  assert np.abs(first - second).max() > 0.01


def test_a_share_of_labels_is_the_wrong_way_round():
  wrong = lambda flips: gold.labelled(WORLD, jax.random.key(1), num=2000, sharpness=1e4, flips=flips)
  share = lambda batch: np.mean(batch['tokens'][0::2, 1] < batch['tokens'][1::2, 1])
  assert share(wrong(0.0)) == 0 and abs(share(wrong(0.2)) - 0.2) < 0.03
