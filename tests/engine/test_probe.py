"""Probes of rows that are cut, against prefixes cut by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import probe
from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from tests.once import once

MODEL = LanguageModel(TransformerConfig(
    vocab_size=11, num_layers=1, width=16, num_heads=2, num_kv_heads=1, head_size=8, mlp_size=32,
    context_length=24,
))
DECODING = Decoding(
    max_tokens=6, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0
)
SHORT = dataclasses.replace(DECODING, max_tokens=3, temperature=0.8)
POLICY = once(lambda: MODEL.init(jax.random.key(0)))
PROVER = once(lambda: MODEL.init(jax.random.key(1)))
PROMPTS = np.array([[5, 6, 0], [7, 8, 9], [4, 0, 0]], np.int32)
LENGTHS = np.array([2, 3, 1])
APPENDED = np.array([3, 3], np.int32)
CUTS = np.array([[0, 1], [1, 2], [0, 6]])
sample = jax.jit(engine.sample, static_argnums=1, static_argnames=('group_size', 'decoding'))
score = jax.jit(engine.score, static_argnums=1, static_argnames=('decoding', 'chunk_size'))
BATCH = once(lambda: sample(
    POLICY(), MODEL, PROMPTS, LENGTHS, jax.random.key(2), group_size=1,
    decoding=dataclasses.replace(DECODING, min_tokens=5),
))
prefix_probe = jax.jit(
    probe.prefix_probe, static_argnums=1, static_argnames=('decoding', 'samples')
)
answer_logprobs = jax.jit(
    probe.answer_logprobs, static_argnums=1, static_argnames=('decoding', 'chunk_size')
)


def prefix(row, cut, appended):
  return [*PROMPTS[row, : LENGTHS[row]], *BATCH()['tokens'][row, LENGTHS[row] :][:cut], *appended]


@pytest.mark.parametrize('appended', [APPENDED, APPENDED[:0]], ids=['appended', 'bare'])
@pytest.mark.slow
def test_a_probe_is_sampling_from_the_prefix(appended):
  """Cut by hand, and sampled by the engine under the same names."""
  found = prefix_probe(
      PROVER(), MODEL, BATCH(), CUTS, jax.random.key(3), appended=appended, decoding=SHORT, samples=2
  )
  assert found.tokens.shape == found.logprobs.shape == (3, 2, 2, 3)
  rows = [prefix(row, cut, appended) for row in range(3) for cut in CUTS[row]]
  width = max(map(len, rows))
  prompts = np.array([[*map(int, row)] + [0] * (width - len(row)) for row in rows], np.int32)
  said = sample(
      PROVER(), MODEL, prompts, np.array(list(map(len, rows))), jax.random.key(3), group_size=2,
      decoding=SHORT,
  )
  expected, _ = score(PROVER(), MODEL, said, decoding=SHORT, chunk_size=16)
  behind = lambda x: engine.actions(said, x, 3).reshape(3, 2, 2, 3)
  np.testing.assert_array_equal(found.tokens, behind(said['tokens']))
  np.testing.assert_array_equal(found.mask, behind(said['action_mask']))
  np.testing.assert_allclose(found.logprobs, behind(expected), atol=1e-5)
  assert found.mask.any(axis=-1).all() and len(np.unique(found.tokens[..., 0])) > 1


@pytest.mark.slow
def test_an_answer_is_as_likely_as_its_tokens():
  answers = np.array([[5, 1, 0], [4, 6, 1], [1, 0, 0]], np.int32)
  lengths = np.array([2, 3, 1])
  found = answer_logprobs(
      PROVER(), MODEL, BATCH(), CUTS, appended=APPENDED, answers=answers, answer_lengths=lengths,
      decoding=SHORT, chunk_size=16,
  )
  for row in range(3):
    for n, cut in enumerate(CUTS[row]):
      tokens = jnp.array([[*prefix(row, cut, APPENDED), *answers[row, : lengths[row]]]], jnp.int32)
      hidden, _ = MODEL.forward(PROVER(), tokens)
      logprobs = jax.nn.log_softmax(MODEL.logits(PROVER(), hidden[0]) / 0.8)
      wanted = sum(logprobs[-lengths[row] - 1 + i, answers[row, i]] for i in range(lengths[row]))
      np.testing.assert_allclose(found[row, n], wanted, atol=1e-5)


def test_what_does_not_fit_is_refused():
  small = dataclasses.replace(SHORT, max_tokens=2)
  with pytest.raises(ValueError, match='answers of 3 tokens'):
    probe.answer_logprobs(
        PROVER(), MODEL, BATCH(), CUTS, appended=APPENDED, answers=np.zeros((3, 3), np.int32),
        answer_lengths=np.ones(3, np.int32), decoding=small, chunk_size=16,
    )
  with pytest.raises(ValueError, match='do not fit the context'):
    probe.prefix_probe(
        PROVER(), MODEL, BATCH(), CUTS, jax.random.key(0), appended=np.zeros(20, np.int32), decoding=SHORT,
        samples=1,
    )
