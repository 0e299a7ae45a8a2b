"""A rule that knows one wording, and worlds with several. https://arxiv.org/abs/2503.23829"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import gold
from rlx.rewards.gold import as_worded

WORLDS = gold.paraphrased_worlds(
    num_prompts=3, num_meanings=4, num_phrasings=2, width=5, apart=0.1, hidden=0.5
)


def test_a_rule_pays_right_answers_in_their_first_wording_alone():
  world = WORLDS.make(jax.random.key(0))
  rewards = np.asarray(world.gold)
  np.testing.assert_array_equal(rewards[:, 0::2], rewards[:, 1::2])
  features = np.asarray(world.features)
  within = np.abs(features[:, 0::2] - features[:, 1::2]).mean()
  assert within < 0.3 * np.abs(features[:, 0:-2] - features[:, 2:]).mean()
  rows = gold.rows_of(jnp.repeat(jnp.arange(3), 8), jnp.tile(jnp.arange(8), 3))
  paid = as_worded(WORLDS, bar=0.0)({'world': world}, rows, jax.random.key(0))['rewards'].reshape(3, 8)
  np.testing.assert_array_equal(paid[:, 0::2], rewards[:, 0::2] > 0)
  assert not paid[:, 1::2].any() and 0 < paid.sum() < 12
