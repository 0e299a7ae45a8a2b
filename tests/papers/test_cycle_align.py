"""Rankings of a ranker, and what a policy agrees on. https://arxiv.org/abs/2310.16271"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.cycle_align import cycle_align
from rlx.envs import gold
from rlx.evaluation.cycles import purity
from rlx.losses.ranking import longest_agreed, whole
from rlx.rewards.cycles import in_cycles

POLICY, JUDGE = gold.LogLinear(), gold.Linear()
# One prompt with four answers; the ranker's order is 3 2 1 0, the policy's 2 3 0 1, the true one 3 2 0 1.
WORLD = gold.World(
    features=jnp.eye(4)[None], gold=jnp.array([[1.0, 0.0, 2.0, 3.0]]),
    base=jax.nn.log_softmax(jnp.array([[0.1, 0.0, 0.3, 0.2]])), opinions=jnp.array([[0.0, 1.0, 2.0, 3.0]]),
)
WORLDS = gold.Worlds(make=lambda key: WORLD)
MODELS = {'world': WORLD, 'policy': POLICY.init(WORLD), 'judge': JUDGE.init(WORLD)}
HOW = dict(group_size=4, noise=0.0)


def ranked(believed, models=MODELS):
  rows = {'policy': gold.rows_of(jnp.zeros(4, jnp.int32), jnp.arange(4))}
  reward = in_cycles(WORLDS, POLICY, JUDGE, of='policy', to='judge', **HOW, believed=believed)
  return reward(models, rows, jax.random.key(0))


def test_the_longest_agreed_part_is_what_trying_all_parts_finds():
  scores = np.asarray(jax.random.normal(jax.random.key(0), (50, 5)))
  kept = np.asarray(longest_agreed(jnp.asarray(scores)))
  for row, mine in zip(scores, kept, strict=True):
    falls = lambda places, row=row: all(row[a] > row[b] for a, b in itertools.pairwise(places))
    parts = [p for n in range(1, 6) for p in itertools.combinations(range(5), n) if falls(p)]
    assert falls(np.flatnonzero(mine)) and mine.sum() == max(map(len, parts))
  assert longest_agreed(jnp.zeros((1, 3))).sum() == 1  # equal answers have no order


def test_rows_are_in_the_rankers_order_and_what_is_agreed_is_compared():
  rows = ranked(longest_agreed)
  np.testing.assert_array_equal(rows['policy']['tokens'][:, 1], [3, 2, 1, 0])
  shown = rows['judge']['tokens'][:, 1].reshape(-1, 2)[rows['judge']['weights'][0::2] > 0].tolist()
  assert len(shown) == 1 and shown[0] in ([3, 1], [3, 0], [2, 1], [2, 0])  # not 3 2, and not 1 0
  everything = ranked(whole)['judge']
  assert everything['weights'].all() and len(everything['weights']) == 12
  assert everything['preferred'].reshape(-1, 2).tolist() == [[True, False]] * 6


def test_demonstrations_change_the_ranker():
  taught = {**MODELS, 'judge': {'direction': jnp.array([5.0, 0, 0, 0]), 'world': WORLD}}
  np.testing.assert_array_equal(ranked(whole, taught)['policy']['tokens'][:, 1], [0, 3, 2, 1])


@pytest.mark.slow
def test_purity_is_told_of_comparisons_of_unlike_answers():
  def told(believed):
    evaluation = purity(WORLDS, POLICY, JUDGE, **HOW, believed=believed)
    return evaluation.read(evaluation.ask(MODELS, {}))[0]

  agreed, everything = told(longest_agreed), told(whole)
  assert agreed['ranked'] == everything['ranked'] < 1 and agreed['believed'] == 1
  assert everything['purer'] == 0 and everything['kept'] == 1 > agreed['kept']


def test_the_loss_is_of_the_order_and_of_the_best_answer():
  logprobs = jnp.log(jnp.array([[0.2, 0.5, 0.3]])).reshape(-1)
  table = type('Table', (), {'score': lambda self, params, batch: (params[:, None], 0 * params[:, None])})()
  algorithm = cycle_align(None, table, group_size=3, nll_coef=0.5)
  loss, _ = algorithm.loss({'policy': logprobs}, {'action_mask': jnp.ones((3, 1), bool)}, None)
  expected = np.log(0.5 / 0.2) + np.log(0.3 / 0.2) - 0.5 * np.log(0.2)
  assert float(loss) == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_errors_of_reference_and_ranker_are_their_own():
  worlds = gold.opinionated_worlds(num_prompts=200, num_answers=32, width=8, base_knows=0.5, other_knows=0.5)
  world = worlds.make(jax.random.key(0))
  flat = lambda x: np.asarray(gold.standard(x)).ravel()
  knows = lambda x, y: np.corrcoef(flat(x), flat(y))[0, 1]
  told = [knows(world.base, world.gold), knows(world.opinions, world.gold), knows(world.base, world.opinions)]
  np.testing.assert_allclose(told, [0.5, 0.5, 0.25], atol=0.06)
