"""RLCoder: the retriever is paid by how far a frozen generator's perplexity falls, and by nothing else.

https://arxiv.org/abs/2407.19487
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups
from rlx.algorithms.rlcoder import rlcoder
from rlx.envs.snippets import snippets
from rlx.errors import ConfigError
from rlx.models.networks import Network
from rlx.models.retriever import retriever
from rlx.rewards.by_perplexity import fall_of_perplexity
from rlx.rollout.snippets import behind_choices, retrievals
from tests.once import once

TASK = snippets(functions=8, candidates=4, empty=1, held_out_share=0.1)
PROBLEMS = once(lambda: jax.jit(lambda key: TASK.sample(key, 200, False))(jax.random.key(0)))
TABLE = Network(init=None, apply=lambda params, queries, candidates: params)  # scores as they are


def generator(sees_snippets):
  """Sure of each token, chance 1, where it reads that a snippet is there; else each has chance 1/4."""

  def score(params, batch):
    there = (batch['prompt_lengths'] > TASK.query_columns)[:, None] & sees_snippets
    return jnp.where(batch['action_mask'], jnp.where(there, 0.0, -jnp.log(4.0)), 0), None

  return types.SimpleNamespace(score=score)


def rows(choices):
  known = {name: PROBLEMS()[name][: len(choices)] for name in ('queries', 'candidates', 'solutions')}
  behind = jax.jit(lambda known, choices: behind_choices(TASK, known, choices))
  return {**known, **behind(known, jnp.array(choices)), 'choices': jnp.array(choices)}


def paid(choices, sees_snippets=True, price=0.0):
  reward = fall_of_perplexity(TASK, generator(sees_snippets), price=price)
  return jax.jit(lambda batch: reward({'generator': None}, batch, None))(rows(choices))


def test_the_fall_of_the_perplexity_is_paid_and_the_empty_candidate_gets_nothing():
  batch = paid([0, 4])
  np.testing.assert_allclose(batch['rewards'], [np.log(4), 0], rtol=1e-6)
  np.testing.assert_allclose(batch['generator/perplexity_alone'], [4, 4], rtol=1e-6)
  assert 'gold' not in batch
  np.testing.assert_allclose(paid([0, 4], price=0.05)['rewards'], [np.log(4) - 0.05, 0], rtol=1e-6)
  np.testing.assert_array_equal(paid([0, 4], sees_snippets=False)['rewards'], 0)


def slope(rewards):
  """Of the loss by the scores of two choices for one file, 0 and the empty one, from equal chances."""
  algorithm = rlcoder(
      lambda *_: None, lambda models, batch, key: batch, TABLE, baseline=groups.centred, clip_low=0.2,
      clip_high=0.2, entropy_coef=0.0,
  )
  batch = {
      **rows([0, 4]), 'rewards': rewards, 'groups': jnp.zeros(2, jnp.int32),
      'choice_logprobs': jnp.full(2, -jnp.log(5.0)),
  }

  def loss(scores):
    return algorithm.loss({'retriever': scores}, algorithm.advantage({}, batch, None), None)[0]

  return jax.jit(jax.grad(loss))(jnp.zeros((2, 5)))


def test_the_policy_gradient_moves_towards_what_lowers_perplexity_and_stays_where_nothing_does():
  # A = ±log(4) / 2 and ∂ log π(c) / ∂ s = 1[c] - 1/5, averaged over two rows.
  chances = np.full((2, 5), 0.2)
  expected = -np.log(4) / 2 * np.array([[1], [-1]]) * (np.eye(5)[[0, 4]] - chances) / 2
  np.testing.assert_allclose(slope(paid([0, 4])['rewards']), expected, atol=1e-6)
  np.testing.assert_array_equal(slope(paid([0, 4], sees_snippets=False)['rewards']), 0)


def test_a_row_without_a_reward_teaches_nothing():
  np.testing.assert_allclose(slope(jnp.array([0.75, jnp.nan])), np.zeros((2, 5)), atol=1e-7)


def test_one_snippet_defines_what_is_called_or_the_file_does():
  told = [[TASK.decode(x) for x in row] for row in PROBLEMS()['candidates']]
  files = [TASK.decode(x) for x in PROBLEMS()['queries']]
  meant = {}
  for file, candidates, gold, solution in zip(
      files, told, PROBLEMS()['gold'].tolist(), PROBLEMS()['solutions'], strict=True
  ):
    source = candidates[gold] if gold >= 0 else file[:4]
    assert source[1:3] == TASK.decode(solution)
    assert meant.setdefault(file[4], source[0]) == source[0], 'a call means the same everywhere'
    names = [x[:1] for x in (*candidates[:4], file)]
    assert len(set(names)) == 5 and candidates[4] == ''
  assert len(set(meant.values())) == 8 and any(call.lower() != name for call, name in meant.items())
  assert 0.4 < np.mean(np.asarray(PROBLEMS()['gold']) < 0) < 0.6


def test_an_empty_candidate_takes_no_room_and_what_is_scored_is_the_rest_of_the_file():
  batch = rows([2, 4])
  np.testing.assert_array_equal(batch['prompt_lengths'], [10, 6])
  for i, choice in enumerate([2, 4]):
    text = TASK.decode(PROBLEMS()['candidates'][i, choice]) + TASK.decode(PROBLEMS()['queries'][i])
    assert TASK.decode(batch['tokens'][i]) == text + TASK.decode(PROBLEMS()['solutions'][i])
  np.testing.assert_array_equal(batch['action_mask'].sum(axis=1), 3)


def test_choices_are_drawn_by_the_scores_and_nobody_is_told_which_was_needed():
  scores = jnp.log(jnp.array([0.1, 0.2, 0.3, 0.4, 1e-9]))
  table = Network(init=None, apply=lambda params, queries, candidates: jnp.tile(scores, (len(queries), 1)))
  rollout = retrievals(TASK, table, batch_size=8, group_size=4)
  batch, _ = jax.jit(lambda key: rollout({'retriever': None}, rollout.begin(key), key))(jax.random.key(1))
  chances = jax.nn.log_softmax(scores)[batch['choices']]
  np.testing.assert_allclose(batch['choice_logprobs'], chances, rtol=1e-6)
  np.testing.assert_array_equal(batch['groups'], [0] * 4 + [1] * 4)
  assert 'gold' not in batch


def test_a_retriever_reads_candidates_each_by_itself():
  model = retriever(TASK, width=4, hidden=(8,), size=4)
  params = model.init(jax.random.key(0))
  queries, candidates = PROBLEMS()['queries'][:3], PROBLEMS()['candidates'][:3]
  apply = jax.jit(model.apply)
  scores = apply(params, queries, candidates)
  np.testing.assert_allclose(apply(params, queries, candidates[:, ::-1]), scores[:, ::-1], rtol=1e-5)
  assert scores.shape == (3, 5)


def test_a_world_says_what_does_not_fit():
  with pytest.raises((ConfigError, ValueError), match='functions'):
    snippets(functions=5, candidates=4, empty=1, held_out_share=0.1)
