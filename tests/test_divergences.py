"""Divergences that runs report, against sums over a small vocabulary.

A batch that holds each token as often as the sampler says it is the sampler's distribution itself.
"""

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import metrics
from rlx.algorithms.control.impala import impala
from rlx.algorithms.control.ppo import ppo
from rlx.algorithms.control.ppo_recurrent import ppo_recurrent

SAMPLER = np.array([8, 4, 2, 2]) / 16
POLICY = np.array([0.25, 0.15, 0.5, 0.1])
TOKENS = np.repeat(np.arange(4), (16 * SAMPLER).astype(int))
KL = np.sum(SAMPLER * np.log(SAMPLER / POLICY))
LOGITS = jnp.log(jnp.asarray(POLICY, jnp.float32))
UNDER_SAMPLER, UNDER_POLICY = (jnp.asarray(np.log(p)[TOKENS], jnp.float32) for p in (SAMPLER, POLICY))


def test_the_directions_differ_here():
  """The estimator the wrong way round is neither of the two divergences."""
  back = np.sum(POLICY * np.log(POLICY / SAMPLER))
  wrong = np.sum(SAMPLER * (SAMPLER / POLICY - 1 - np.log(SAMPLER / POLICY)))
  assert min(abs(KL - back), abs(KL - wrong), abs(back - wrong)) > 0.02


def test_metrics_of_language_models():
  batch = {'sampler_logprobs': UNDER_SAMPLER[:, None], 'weights': jnp.ones((16, 1))}
  said = jax.jit(metrics.describe_policy)(batch, UNDER_POLICY[:, None], jnp.zeros((16, 1)))
  chi_square = np.sum(POLICY**2 / SAMPLER) - 1
  expected = {
      'kl/old': KL, 'mismatch/kl': KL,
      'mismatch/chi_square': chi_square, 'mismatch/chi_square_row': chi_square,
      'mismatch/perplexity': np.sum(SAMPLER / POLICY),
      'mismatch/perplexity_ratio': np.sum(SAMPLER**2 / POLICY),
  }
  for name, value in expected.items():
    np.testing.assert_allclose(said[name], value, rtol=1e-5, err_msg=name)


def test_rows_of_several_tokens():
  """χ² of a row is that of the product, the perplexity that of its mean; a row without an action is none."""
  gaps = np.float32([[0.3, -0.1, 0.0], [0.2, 0.0, 0.0], [0.0, 0.0, 0.0]])
  counted = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
  batch = {'sampler_logprobs': jnp.full((3, 3), -1.5), 'weights': jnp.asarray(counted, jnp.float32)}
  said = metrics.describe_mismatch(batch, jnp.asarray(gaps) - 1.5)
  rows = [gaps[i][counted[i]] for i in range(2)]
  expected = {
      'chi_square': np.mean([np.mean(np.exp(2 * row)) - 1 for row in rows]),
      'chi_square_row': np.mean([np.exp(2 * row.sum()) - 1 for row in rows]),
      'perplexity': np.mean([np.exp(1.5 - row.mean()) for row in rows]),
      'perplexity_ratio': np.mean([np.exp(-row.mean()) for row in rows]),
      'effective_samples': np.mean([np.exp(row).sum()**2 / len(row) / np.exp(2 * row).sum() for row in rows]),
  }
  for name, value in expected.items():
    np.testing.assert_allclose(said[f'mismatch/{name}'], value, rtol=1e-5, err_msg=name)


def score(params, observations, actions):
  return jnp.take(jax.nn.log_softmax(params), actions), jnp.zeros(actions.shape)


NUMBERS = dict(entropy_coef=0.0, value_coef=0.5, discount=0.9, lambda_=0.9)
CLIP = dict(clip_low=0.2, clip_high=0.2)
VALUE = types.SimpleNamespace(apply=lambda params, observations: jnp.zeros(observations.shape[:-1]))
RECURRENT = types.SimpleNamespace(
    scan=lambda params, carries, observations, starts: (
        carries, jnp.broadcast_to(params, (*observations.shape[:-1], 4)), jnp.zeros(observations.shape[:-1])
    ),
)
ACTOR = types.SimpleNamespace(score=score)
CONTROL = {
    'ppo': lambda: ppo(None, ACTOR, VALUE, **CLIP, value_clip=0.2, **NUMBERS),
    'ppo_recurrent': lambda: ppo_recurrent(None, RECURRENT, **CLIP, **NUMBERS),
    'impala': lambda: impala(None, ACTOR, VALUE, clip_rho=1.0, clip_c=1.0, **NUMBERS),
}


@pytest.mark.parametrize('name', CONTROL)
def test_metrics_of_control(name):
  zeros, falses = jnp.zeros((1, 16)), jnp.zeros((1, 16), bool)
  batch = {
      'observations': jnp.zeros((1, 16, 1)), 'next_observations': jnp.zeros((1, 16, 1)), 'carries': zeros,
      'actions': jnp.asarray(TOKENS)[None], 'rewards': zeros, 'terminated': falses, 'truncated': falses,
      'starts': falses, 'sampler_logprobs': UNDER_SAMPLER[None], 'advantages': zeros, 'values': zeros,
      'returns': zeros,
  }
  _, said = CONTROL[name]().loss({'policy': LOGITS, 'value': None}, batch, None)
  np.testing.assert_allclose(said['kl/old'], KL, rtol=1e-5)
