"""ReMax: the greedy answer is the baseline, prompt by prompt. https://arxiv.org/abs/2310.10505"""

import algorithms_table as toy
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.algorithms.remax import remax
from rlx.engine import sample as engine
from rlx.losses.anchors import no_kl
from rlx.step import collect
from rlx.types import State


@pytest.mark.slow
def test_advantages_are_against_the_greedy_answer():
  params = jax.jit(toy.MODEL.init)(jax.random.key(3))
  algorithm = remax(toy.samples(), toy.reward, toy.POLICY, no_kl(), group_size=toy.GROUP_SIZE)
  state = State(
      step=jnp.int32(0), params={'policy': params}, slow={}, opt_state=(), world={}, key=jax.random.key(1)
  )
  batch = jax.device_get(jax.jit(lambda state: collect(algorithm, state))(state))
  digits = batch['tokens'][:, :1]
  greedy = engine.sample(
      params, toy.MODEL, digits, jnp.ones(len(digits), jnp.int32), jax.random.key(0), group_size=1,
      decoding=toy.DECODING.greedy,
  )
  expected = np.mean(np.asarray(engine.completions_of(greedy, toy.DECODING)) == digits, axis=1)
  assert expected.std() > 0, 'prompts have different baselines'
  np.testing.assert_allclose(batch['baselines'], expected, atol=1e-6)
  difference = (batch['rewards'] - expected)[:, None] * batch['action_mask']
  np.testing.assert_allclose(batch['advantages'], difference, atol=1e-6)
