"""Filters and penalties against the logits processors of transformers, in the order that it applies them."""

import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')

pytestmark = pytest.mark.parity

VOCAB, ROWS, PROMPT, SAID = 17, 5, 4, 6


@pytest.mark.parametrize(
    'numbers',
    [
        {'min_p': 0.1}, {'min_p': 0.4}, {'repetition_penalty': 1.7}, {'repetition_penalty': 0.6},
        {'temperature': 0.6, 'top_k': 9, 'top_p': 0.9, 'min_p': 0.05, 'repetition_penalty': 1.3},
    ],
    ids=str,
)
def test_logits_are_those_of_transformers(numbers):
  decoding = Decoding(**{
      'max_tokens': 9, 'min_tokens': 0, 'temperature': 1.0, 'top_k': 0, 'top_p': 1.0, 'sampler': 'gumbel',
      'eos_ids': (), 'pad_id': 0, **numbers,
  })
  rng = np.random.default_rng(0)
  logits = rng.normal(size=(ROWS, VOCAB)).astype(np.float32) * 2
  tokens = rng.integers(0, VOCAB, (ROWS, PROMPT + SAID))
  of = transformers.generation.logits_process
  processors = of.LogitsProcessorList()
  if decoding.repetition_penalty != 1:
    processors.append(of.RepetitionPenaltyLogitsProcessor(decoding.repetition_penalty))
  processors.append(of.TemperatureLogitsWarper(decoding.temperature))
  if decoding.top_k:
    processors.append(of.TopKLogitsWarper(decoding.top_k))
  if decoding.top_p < 1:
    processors.append(of.TopPLogitsWarper(decoding.top_p))
  if decoding.min_p:
    processors.append(of.MinPLogitsWarper(decoding.min_p))
  expected = processors(torch.tensor(tokens), torch.tensor(logits)).numpy()
  stands = lambda part: jnp.asarray(np.array([np.isin(np.arange(VOCAB), row) for row in part]))
  said = stands(tokens[:, :PROMPT]), stands(tokens[:, PROMPT:])
  found = np.asarray(decoding.adjust(jnp.asarray(logits), said=said))
  np.testing.assert_array_equal(np.isfinite(found), np.isfinite(expected))
  kept = np.isfinite(found)
  np.testing.assert_allclose(found[kept], expected[kept], rtol=1e-5)
