"""Votes, counted by hand."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.rewards import labelfree

GROUPS = jnp.array([0, 0, 0, 0, 1, 1, 1])


def test_answers_are_the_same_where_group_and_tokens_are():
  tokens = jnp.array([[3, 1], [2, 1], [3, 1], [3, 2], [3, 1], [3, 1], [2, 1]])
  assert labelfree.answers(tokens, GROUPS).tolist() == [0, 1, 0, 3, 4, 4, 6]


def test_the_majority_of_each_group_wins():
  said = jnp.array([0, 1, 1, 3, 4, 5, 4])
  everyone = jnp.ones(7, bool)
  assert labelfree.majority_vote(said, GROUPS, everyone).tolist() == [0, 1, 1, 0, 1, 0, 1]


def test_of_equals_the_earlier_answer_wins_and_no_answer_has_no_vote():
  said = jnp.array([0, 1, 1, 0, 4, 4, 6])
  everyone = jnp.ones(7, bool)
  assert labelfree.majority_vote(said, GROUPS, everyone).tolist() == [1, 0, 0, 1, 1, 1, 0]
  but_first = everyone.at[0].set(False)
  assert labelfree.majority_vote(said, GROUPS, but_first).tolist() == [0, 1, 1, 0, 1, 1, 0]
  assert labelfree.majority_vote(said, GROUPS, ~everyone).tolist() == [0] * 7


def test_heavy_votes_beat_many():
  said = jnp.array([0, 1, 1, 1, 4, 5, 5])
  weights = jnp.array([1.0, 0.3, 0.3, 0.3, 0.5, 0.4, 0.2])
  assert labelfree.weighted_vote(said, GROUPS, weights).tolist() == [1, 0, 0, 0, 0, 1, 1]


def test_self_consistency_is_the_share_of_the_agents_own_majority():
  """Agent 0 says a, a, b; agent 1 says c alone; in the other group agent 0 says d, e and agent 1 says d."""
  said, agents = jnp.array([0, 0, 2, 3, 4, 5, 4]), jnp.array([0, 0, 0, 1, 0, 0, 1])
  found = labelfree.self_consistency(said, GROUPS, agents)
  np.testing.assert_allclose(found, [2 / 3, 2 / 3, 2 / 3, 1, 1 / 2, 1 / 2, 1], rtol=1e-6)


@pytest.mark.slow
def test_the_weighted_vote_of_complementary_models_is_better_than_each():
  """Two models of which each is sure of the half of all questions that it can answer, and guesses the rest.

  Six samples of each; where it guesses, six answers are as likely, so that the sure one outweighs it.
  """
  key, num = jax.random.key(0), 200
  guesses = np.asarray(jax.random.randint(key, (num, 2, 6), 1, 7))
  knows = np.arange(num) % 2
  sure = np.arange(2)[None, :, None] == knows[:, None, None]
  said = np.where(sure, 0, guesses).reshape(-1, 1)  # 0 is right
  groups, agents = np.repeat(np.arange(num), 12), np.tile(np.repeat([0, 1], 6), num)
  numbers = labelfree.answers(jnp.asarray(said), jnp.asarray(groups))
  weights = labelfree.self_consistency(numbers, jnp.asarray(groups), jnp.asarray(agents))
  elected = np.asarray(labelfree.weighted_vote(numbers, jnp.asarray(groups), weights)) > 0
  right = [(said[(groups == g) & elected] == 0).all() for g in range(num)]
  alone = [(said[agents == agent] == 0).mean() for agent in (0, 1)]
  assert np.mean(right) > 0.95 and max(alone) < 0.55


def test_self_certainty_is_the_divergence_from_saying_nothing():
  probabilities = np.array([[[0.5, 0.25, 0.25], [1 / 3] * 3], [[0.9, 0.05, 0.05], [0.2, 0.2, 0.6]]])
  uniform = np.full(3, 1 / 3)
  apart = (uniform * (np.log(uniform) - np.log(probabilities))).sum(axis=-1)
  mask = np.array([[1, 1], [1, 0]], bool)
  found = labelfree.self_certainty(jnp.log(probabilities) + 5.0, jnp.asarray(mask))
  np.testing.assert_allclose(found, [apart[0].mean(), apart[1, 0]], rtol=1e-5, atol=1e-6)
  assert labelfree.self_certainty(jnp.ones((1, 2, 3)), jnp.zeros((1, 2), bool)).tolist() == [0]


class Letters:
  """Rows of up to four tokens, of which the last before the end (1) is the answer."""

  decoding = Decoding(
      max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,),
      pad_id=0,
  )

  def batch(self, *rows):
    tokens = jnp.array([[9, *row, *[0] * (4 - len(row))] for row in rows])
    mask = jnp.array([[0, *[1] * len(row), *[0] * (4 - len(row))] for row in rows], bool)
    return {
        'tokens': tokens, 'action_mask': mask, 'prompt_lengths': jnp.ones(len(rows), jnp.int32),
        'groups': jnp.zeros(len(rows), jnp.int32),
    }


def test_the_answer_is_read_before_the_end():
  batch = Letters().batch([5, 7, 1], [7, 1], [5, 8, 7, 1], [5, 5, 5, 7], [1])
  completions, said, has_answer = labelfree.read(None, Letters.decoding, batch, answer_tokens=1)
  assert completions[0].tolist() == [5, 7, 1, 0]
  assert said[:3].tolist() == [0, 0, 0] and has_answer.tolist() == [True, True, True, False, False]
  whole = labelfree.read(None, Letters.decoding, batch, answer_tokens=0)[1]
  assert all(a != b for a, b in itertools.combinations(whole.tolist(), 2))
