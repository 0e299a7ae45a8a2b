"""What a dialogue is worth, counted by hand."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.errors import ConfigError
from rlx.rewards import dialogue

# Two episodes of one question; the rows of the left seat, and then those of the right one.
MASK = jnp.array([[1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 0]], bool)
LOGPROBS = jnp.log(jnp.where(jnp.arange(4)[:, None] % 2, 0.25, 0.5)) * jnp.ones((1, 4))
BATCH = {
    'action_mask': MASK, 'trajectories': jnp.array([0, 1, 0, 1]), 'groups': jnp.array([0, 0, 4, 4]) // 2,
    'episode/success': jnp.array([1.0, 1.0, 1.0, 1.0]), 'rewards': jnp.array([0.4, 0.8, 0.4, jnp.nan]),
}
BASE = types.SimpleNamespace(score=lambda params, batch: (LOGPROBS, None))


def rewards_of(**how):
  asked = dialogue.optima(BASE, **how)
  return np.asarray(asked({'base': None}, BATCH, jax.random.key(0))['rewards'])


def test_tokens_and_perplexity_are_those_of_all_seats_of_an_episode():
  tokens, perplexity = dialogue.spent(BATCH, LOGPROBS)
  assert tokens.tolist() == [5, 2, 5, 2]
  np.testing.assert_allclose(perplexity, [2, 4, 2, 4], rtol=1e-6)


def test_a_short_dialogue_is_worth_more_and_so_is_one_that_reads_well():
  cost, both = rewards_of(token_cost=0.5, readability=0.0), rewards_of(token_cost=0.5, readability=1.0)
  np.testing.assert_allclose(cost[:3], [1 - 0.5, 1 - 0.5 * 2 / 5, 1 - 0.5], rtol=1e-6)
  np.testing.assert_allclose((both - cost)[:3], [1 / 2, 1 / 4, 1 / 2], rtol=1e-5)
  assert np.isnan(both[3]), 'a seat that said nothing has no reward'
  assert np.ptp(rewards_of(token_cost=0.0, readability=0.0)[:3]) == 0, 'without both there is no difference'


def test_rows_of_no_episode_are_told():
  rows = {name: x for name, x in BATCH.items() if name != 'episode/success'}
  with pytest.raises(ConfigError, match='rows are of no episodes'):
    dialogue.optima(BASE, token_cost=0.5, readability=0.0)({'base': None}, rows, jax.random.key(0))
