"""RLCCF: what the crowd votes for is rewarded, each vote weighted by its member's self-consistency."""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.envs.ciphers import ciphers
from rlx.envs.conformance import check_task
from rlx.rewards import labelfree
from rlx.rewards.crowd import agreed
from rlx.rewards.labelfree import majority

TASK = ciphers(modulus=7, letters=3, domains=('abc',))
DECODING = Decoding(
    max_tokens=2, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0
)
SPEAKER = types.SimpleNamespace(decoding=DECODING)
# Four samples of one problem by each of three members; 0 has no end.
SAID = {'one': [5, 5, 5, 5], 'two': [6, 7, 8, 6], 'three': [6, 9, 7, 6]}


def rows_of(said):
  first = jnp.array(said, jnp.int32)
  end = jnp.where(first > 0, 1, 2)
  tokens = jnp.stack([jnp.full_like(first, 3), jnp.maximum(first, 2), end], axis=1)
  return {
      'tokens': tokens, 'action_mask': jnp.arange(3)[None] + 0 * tokens > 0, 'groups': jnp.zeros_like(first),
      'prompt_lengths': jnp.ones_like(first), 'solutions': jnp.tile(jnp.array([[6, 1]]), (4, 1)),
  }


def rewards_of(said, weigh):
  reward = agreed(TASK, dict.fromkeys(said, SPEAKER), answer_tokens=0, weigh=weigh)
  rows = reward({}, {name: rows_of(one) for name, one in said.items()}, jax.random.key(0))
  return {name: np.asarray(one['rewards']).tolist() for name, one in rows.items()}


def test_the_label_is_the_vote_of_all_weighted_by_self_consistency():
  # Weights 1, 1/2 and 1/2: `5` has 4 votes that weigh 4, `6` has 4 that weigh 2.
  assert rewards_of(SAID, labelfree.self_consistency) == {
      'one': [1, 1, 1, 1], 'two': [0, 0, 0, 0], 'three': [0, 0, 0, 0]}
  # With one more `6` by a member that is less of one mind, equal votes elect `6` and weighted ones still `5`.
  said = {**SAID, 'two': [6, 6, 7, 6]}
  assert rewards_of(said, labelfree.alike)['two'] == [1, 1, 0, 1]
  assert rewards_of(said, labelfree.self_consistency)['one'] == [1, 1, 1, 1]  # 4 beside 9/4 + 1


def test_a_member_learns_what_it_alone_would_never_call_right():
  said = {'one': [5, 5, 5, 5], 'two': [5, 5, 5, 7], 'three': [9, 9, 9, 5]}
  assert rewards_of(said, labelfree.self_consistency)['three'] == [0, 0, 0, 1]
  alone = majority(TASK, SPEAKER, answer_tokens=0)({}, rows_of(said['three']), jax.random.key(0))
  np.testing.assert_array_equal(alone['rewards'], [1, 1, 1, 0])


def test_what_does_not_end_neither_votes_nor_wins():
  said = {'one': [0, 0, 0, 0], 'two': [6, 7, 8, 9], 'three': [6, 7, 8, 9]}
  found = rewards_of(said, labelfree.self_consistency)
  assert found['one'] == [0, 0, 0, 0] and found['two'] == [1, 0, 0, 0]


@pytest.mark.slow
def test_the_ciphers_keep_the_contract():
  check_task(TASK)
