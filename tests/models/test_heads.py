"""Critics as models of a run: one with a trunk of its own, and one on the policy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.packing import Packing
from rlx.engine.speaker import Critic, Scoring
from rlx.models import heads
from rlx.models.heads import TokenHead
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig

MODEL = LanguageModel(TransformerConfig(
    vocab_size=7, num_layers=1, width=8, num_heads=2, num_kv_heads=1, head_size=4, mlp_size=12,
    context_length=8,
))
TOKENS = jnp.array([[1, 2, 3, 4]])
KEY = jax.random.key(0)


def test_a_value_head_begins_as_a_copy_that_says_zero():
  critic, policy = heads.value_head(MODEL), MODEL.init(KEY)
  assert critic.functions == TokenHead(MODEL) and critic.stands_on == ()
  params = critic.init(KEY, {'policy': policy})
  jax.tree.map(np.testing.assert_array_equal, params['trunk'], policy)
  mine, theirs = (tree['embedding'].unsafe_buffer_pointer() for tree in (params['trunk'], policy))
  assert mine != theirs, 'a donated state would hold one buffer twice'
  assert critic.view(params, {}) is params
  assert not critic.functions.read(params, TOKENS).any()


@pytest.mark.slow
def test_a_shared_head_stands_on_the_policy_and_teaches_its_trunk():
  critic, policy = heads.shared_value_head(MODEL), MODEL.init(KEY)
  own = critic.init(KEY, {'policy': policy})
  assert critic.stands_on == ('policy',) and jax.tree.map(jnp.shape, own) == {'value_head': (8,)}
  own = {'value_head': jnp.linspace(-1.0, 1.0, 8)}

  def total(policy, own):
    return critic.functions.read(critic.view(own, {'policy': policy}), TOKENS).sum()

  hidden, _ = MODEL.forward(policy, TOKENS)
  np.testing.assert_allclose(total(policy, own), (hidden @ own['value_head']).sum(), rtol=1e-5)
  slope = jax.grad(total)(policy, own)
  assert np.abs(slope['layers']['up']).max() > 1e-4
  assert critic.view(own, {'policy': policy})['trunk'] is policy


def test_what_a_head_says_behind_a_token_is_what_it_says_before_the_next():
  critic = Critic(head=TokenHead(MODEL), scoring=Scoring(chunk_tokens=8, packing=None))
  params = {'trunk': MODEL.init(KEY), 'value_head': jnp.linspace(-1.0, 1.0, 8)}
  mask = jnp.array([[False, True, True, True]])
  rows = {'tokens': TOKENS, 'action_mask': mask, 'valid': jnp.ones_like(mask), 'groups': jnp.zeros(1, int),
          'prompt_lengths': jnp.ones(1, int)}
  behind, before = critic.behind(params, rows), critic.apply(params, rows)
  np.testing.assert_allclose(behind[:, :-1], before[:, 1:], rtol=1e-6)
  assert behind[0, -1]  # before nothing
  scoring = Scoring(chunk_tokens=8, packing=Packing(columns=6, rows=1, share_prompts=True))
  packed = Critic(head=TokenHead(MODEL), scoring=scoring)
  np.testing.assert_allclose(packed.behind(params, rows), jnp.where(mask, behind, 0), rtol=1e-5, atol=1e-6)
