"""SPCT: scores of several judgements in sum, a meta model that says which count, and rejective rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import weighing
from rlx.envs.conformance import check_task
from rlx.envs.text import EOS_ID
from rlx.rewards import score_votes
from rlx.rollout import weighing as rollouts
from rlx.types import StatefulRollout
from tests.cases import cases

TASK = weighing.weighed_by_scores(modulus=7, length=3, kinds=3, held_out_share=0.25)
SCORES = jnp.array([[3.0, 4.0], [3.0, 4.0], [6.0, 1.0], [2.0, 2.0]])  # of four judgements
WORTH = jnp.array([3, 4])


# --- votes --------------------------------------------------------------------------------------------------


def test_votes_are_sums_of_scores():
  """3 + 3 + 6 + 2 = 14 to 11: one that errs by far outvotes two; without it, it is 8 to 10."""
  everyone, last = jnp.ones(4, bool), jnp.array([False, False, False, True])
  np.testing.assert_allclose(score_votes.summed_votes(SCORES, everyone), [14, 11])
  right = lambda counts: float(score_votes.preferred_by(score_votes.summed_votes(SCORES, counts), WORTH))
  assert right(everyone) == 0
  assert right(score_votes.votes_kept(jnp.array([1.0, 2.0, -1.0, 0.5]), keep=3)) == 1
  assert right(last) == 0.5  # nobody is ahead
  assert right(jnp.array([True, False, False, False])) == 1


def test_the_meta_model_says_who_votes():
  meta = jnp.array([[0.1, 0.4, -2.0, 0.4], [0.0, 0.0, 0.0, 0.0]])
  kept = score_votes.votes_kept(meta, keep=2)
  np.testing.assert_array_equal(kept, [[False, True, False, True], [True, True, False, False]])
  np.testing.assert_array_equal(score_votes.votes_kept(meta, keep=4), True)  # plain voting
  np.testing.assert_array_equal(score_votes.votes_kept(meta, keep=1)[0], [False, True, False, False])


@pytest.mark.slow
def test_more_votes_are_right_more_often_and_a_meta_model_helps():
  """Judgements that are right in two of five and by chance else; the meta model is right in four of five."""
  random, shape = np.random.default_rng(0), (2000, 8)
  worth = np.argsort(random.uniform(size=(2000, 7)), axis=1)[:, :2]
  right = random.uniform(size=shape) < 0.4
  scores = np.where(right[..., None], worth[:, None], random.integers(0, 7, (*shape, 2)))
  meta = np.where(random.uniform(size=shape) < 0.8, right, ~right).astype(np.float32)
  chance = random.normal(size=shape)

  def accuracy(k, meta, keep):
    counts = score_votes.votes_kept(jnp.asarray(meta[:, :k]), keep=keep)
    sums = score_votes.summed_votes(jnp.asarray(scores[:, :k]), counts)
    return float(score_votes.preferred_by(sums, jnp.asarray(worth)).mean())

  plain = [accuracy(k, meta, k) for k in (1, 2, 4, 8)]
  assert (np.diff(plain) > 0).all() and plain[3] > plain[0] + 0.1
  assert accuracy(8, meta, 4) > plain[3] + 0.02
  assert accuracy(8, chance, 4) < plain[3]  # half of the votes, whichever


# --- rows ---------------------------------------------------------------------------------------------------

REWARDS = jnp.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])  # of three pairs: one fails, none fails, both fail


def rows():
  batch = {'action_mask': jnp.ones((6, 2), bool), 'groups': jnp.arange(6) // 2}
  return StatefulRollout(begin=lambda key: {}, draw=lambda models, world, key: (batch, world), data=None)


def test_rows_that_fail_or_are_too_easy_are_rejected():
  reward = lambda models, batch, key: {**batch, 'rewards': REWARDS}
  batch, _ = rollouts.rejective(rows(), reward)({}, {}, jax.random.key(0))
  np.testing.assert_array_equal(batch['rejective/kept'], [1, 0, 0, 0, 0, 0])
  np.testing.assert_array_equal(batch['action_mask'], np.array([[1, 1]] + 5 * [[0, 0]], bool))
  judged, _ = rollouts.with_verdicts(rows(), reward)({}, {}, jax.random.key(0))
  np.testing.assert_array_equal(judged['preferred'], REWARDS > 0)
  assert judged['action_mask'].all()


# --- the task -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_task_keeps_the_contract():
  check_task(weighing.weighed_by_scores(modulus=4, length=2, kinds=2, held_out_share=0.25), num=500)


def test_principles_say_what_answers_are_worth():
  """By hand for each pair: of kind k, each sum counts k + 1 times in the next."""
  draw = jax.jit(TASK.sample, static_argnums=(1, 2))
  problems = jax.tree.map(np.asarray, draw(jax.random.key(0), 48, False))
  for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
    kind, *answers = TASK.decode(prompt)[0], *TASK.decode(prompt)[1:-1].split(',')
    said = []
    for answer in answers:
      sums = [0]
      for digit in answer:
        sums.append(('abc'.index(kind) + 1) * sums[-1] % 7 + int(digit))
        sums[-1] %= 7
      said.append(''.join(map(str, sums[1:])))
    first, second = said
    assert TASK.decode(solution) == f'{"+*^"["abc".index(kind)]}{first},{second}#{first[-1]},{second[-1]}'
    assert first[-1] != second[-1]
  assert set(problems['kinds'].tolist()) == {0, 1, 2}


@pytest.mark.parametrize(('critique', 'right'), cases(
    [
        ('*421,464#1,4$', True), ('#1,4$', True), ('+#0,6$', True), ('*421,464#4,1$', False),
        ('#4,4$', False), ('*421,464#1,4', False), ('1,4$', False), ('#14$', False), ('#,1,4$', False),
        ('<#1,4$', False), ('4$', False),
    ],
    at_once=[('*421,464#1,4$', True), ('#4,4$', False), ('1,4$', False)],
))
def test_scores_are_paid_that_are_in_order(critique, right):
  tokens = [EOS_ID if c == '$' else TASK.encode(c)[0] for c in critique]
  completions = np.zeros((1, 16), np.int32)
  completions[0, :len(tokens)] = tokens
  worth = jnp.array([[1, 4]])
  assert TASK.verify({'worth': worth}, jnp.asarray(completions)).tolist() == [float(right)]
