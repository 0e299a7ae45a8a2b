"""What holds a policy: who scores the rows, and what it says of them."""

import types

import jax.numpy as jnp
import numpy as np
import pytest

from rlx.losses.anchors import kl_in_loss, kl_in_reward, no_kl, sequence_kl, token_kl

MASK = jnp.array([[False, True, True], [False, True, False]])
BATCH = {
    'tokens': jnp.array([[0, 1, 2], [0, 2, 0]]), 'action_mask': MASK,
    'sampler_logprobs': jnp.where(MASK, jnp.array([[0.0, -1.0, -2.0], [0.0, -0.5, 0.0]]), 0),
}
REFERENCE = types.SimpleNamespace(
    score=lambda params, batch: (params * batch['tokens'].astype(jnp.float32), None)
)
MODELS = {'policy': None, 'reference': jnp.float32(-1.0)}


def test_the_reference_scores_with_its_own_functions_and_parameters():
  for anchor in (kl_in_loss(REFERENCE, coef=0.1), kl_in_reward(REFERENCE, coef=0.1)):
    batch = anchor.annotate(MODELS, BATCH)
    np.testing.assert_array_equal(batch['reference_logprobs'], -BATCH['tokens'].astype(jnp.float32))
    assert batch.keys() == {*BATCH, 'reference_logprobs'}


def test_where_nothing_is_held_there_need_not_be_a_reference():
  assert no_kl().annotate({'policy': None}, BATCH) is BATCH


def test_each_says_where_it_counts():
  anchors = no_kl(), kl_in_loss(REFERENCE, coef=0.1), kl_in_reward(REFERENCE, coef=0.2)
  assert [(x.coef, x.reward_coef) for x in anchors] == [(0.0, 0.0), (0.1, 0.0), (0.0, 0.2)]


def test_the_kl_of_tokens_and_rows_by_hand():
  """log π - log ref of the actions: -1 + 1 and -2 + 2 in the first row, -1/2 + 2 in the second."""
  batch = kl_in_reward(REFERENCE, coef=0.1).annotate(MODELS, BATCH)
  np.testing.assert_allclose(token_kl(batch), [[0, 0, 0], [0, 1.5, 0]], atol=1e-6)
  np.testing.assert_allclose(sequence_kl(batch), [0, 1.5], atol=1e-6)


def test_what_is_no_action_does_not_count():
  batch = {**BATCH, 'reference_logprobs': jnp.full(MASK.shape, -3.0)}
  np.testing.assert_allclose(token_kl(batch), [[0, 2, 1], [0, 2.5, 0]], atol=1e-6)


@pytest.mark.parametrize('anchor', [kl_in_loss, kl_in_reward])
def test_a_coefficient_below_0_is_refused(anchor):
  with pytest.raises(ValueError, match='coef=-0.1: at least 0'):
    anchor(REFERENCE, coef=-0.1)
