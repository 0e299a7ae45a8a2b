"""Decoding in step: with a plain decoder it is the sampler; embeddings may be read, and by several models."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine import sample as engine
from rlx.engine import stepwise
from rlx.engine.decoding import Decoding
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.types import check
from tests.cases import cases
from tests.once import once

MODEL = LanguageModel(TransformerConfig(
    vocab_size=7, num_layers=2, width=16, num_heads=2, num_kv_heads=1, head_size=8, mlp_size=32,
    context_length=12, positions='learned', scale_embedding=True,
))
DECODING = Decoding(
    max_tokens=6, min_tokens=2, temperature=0.8, top_k=5, top_p=1.0, sampler='gumbel', eos_ids=(1, 2, 4, 5),
    pad_id=0,
)
PROMPTS, LENGTHS, GROUP_SIZE = jnp.array([[3, 4, 5], [6, 3, 0]]), jnp.array([3, 2]), 8
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))


def in_step(decoding, *, greedy, reads):
  """A plain decoder, with a record of what it read; `reads` makes what it reads of tokens."""
  num_rows = PROMPTS.shape[0] * GROUP_SIZE
  hidden, prompt_kv = MODEL.forward(PARAMS(), PROMPTS)
  hidden = jnp.repeat(hidden[jnp.arange(2), LENGTHS - 1], GROUP_SIZE, axis=0)
  logits_at = lambda hidden, column: engine.adjusted_logits(
      PARAMS(), MODEL, decoding, hidden, jnp.full(num_rows, column)
  )

  def advance(cache, tokens, logits, column):
    hidden, cache = MODEL.decode(PARAMS(), reads(tokens), column, LENGTHS, prompt_kv, cache)
    return logits_at(hidden, column + 1), cache, {'tokens': tokens, 'logits': logits}

  cache = MODEL.empty_cache(num_rows, decoding.max_tokens)
  return stepwise.run(
      logits_at(hidden, 0), cache, advance, stepwise.keys_of_rows(jax.random.key(1), num_rows),
      decoding=decoding, greedy=greedy,
  )


@functools.cache
def sampled(decoding):
  batch = engine.sample(
      PARAMS(), MODEL, PROMPTS, LENGTHS, jax.random.key(1), group_size=GROUP_SIZE, decoding=decoding
  )
  take = lambda name: np.asarray(engine.actions(batch, batch[name], decoding.max_tokens))
  return take('tokens'), take('sampler_logprobs'), take('action_mask')


def embedded(tokens):
  return MODEL.embed(PARAMS(), tokens)


@pytest.mark.parametrize('reads', [lambda tokens: tokens, embedded], ids=['tokens', 'embeddings'])
@pytest.mark.slow
def test_of_a_plain_decoder_it_is_the_sampler(reads):
  tokens, logprobs, records = in_step(DECODING, greedy=False, reads=reads)
  expected, expected_logprobs, mask = sampled(DECODING)
  np.testing.assert_array_equal(np.where(mask, tokens, 0), expected)
  np.testing.assert_allclose(np.where(mask, logprobs, 0), expected_logprobs, atol=1e-5)
  assert (~mask).sum() > 0  # some rows ended early
  read = mask & np.pad(mask[:, 1:], ((0, 0), (0, 1)))
  np.testing.assert_array_equal(np.asarray(records['tokens'])[read], expected[read])
  own = jnp.take_along_axis(jax.nn.log_softmax(records['logits']), tokens[..., None], axis=-1)[..., 0]
  np.testing.assert_allclose(np.asarray(own)[read], expected_logprobs[read], atol=1e-5)


@pytest.mark.slow
def test_greedy_takes_the_likeliest_of_the_same_distribution():
  tokens, logprobs, records = in_step(DECODING, greedy=True, reads=lambda tokens: tokens)
  expected, _, mask = sampled(dataclasses.replace(DECODING, temperature=0.0))
  np.testing.assert_array_equal(np.where(mask, tokens, 0), expected)
  best = jax.nn.log_softmax(records['logits']).max(axis=-1)
  read = mask & np.pad(mask[:, 1:], ((0, 0), (0, 1)))
  np.testing.assert_allclose(np.asarray(logprobs)[read], np.asarray(best)[read], atol=1e-6)


def test_rows_may_be_embeddings():
  rows = jax.random.randint(jax.random.key(2), (3, 9), 0, MODEL.vocab_size)
  forward = jax.jit(functools.partial(MODEL.forward, PARAMS()))
  np.testing.assert_allclose(forward(rows)[0], forward(embedded(rows))[0], atol=1e-6)
  other = forward(embedded(rows).at[:, 4].add(1.0))[0]
  np.testing.assert_allclose(other[:, :4], forward(rows)[0][:, :4], atol=1e-6)
  assert np.abs(other[:, 4:] - forward(rows)[0][:, 4:]).min(axis=(0, 1)).max() > 1e-3


OTHER = MODEL.replace(num_layers=1)
DECODERS = {'one': MODEL, 'other': OTHER}


def mean_of_two(decoding, *, greedy):
  """Rows of the mean of the logits of two decoders, and those logits again, from whole rows."""
  models = {'one': PARAMS(), 'other': OTHER.init(jax.random.key(5))}

  def mix(models, hidden, column):
    logits = (
        engine.adjusted_logits(models[name], model, decoding, hidden[name], column)
        for name, model in DECODERS.items()
    )
    return sum(logits) / 2

  batch = stepwise.together(
      models, DECODERS, PROMPTS, LENGTHS, jax.random.key(1), mix, group_size=GROUP_SIZE, decoding=decoding,
      greedy=greedy,
  )
  again = (stepwise.base_logits(models[name], x, batch, decoding=decoding) for name, x in DECODERS.items())
  return batch, jax.nn.log_softmax(sum(again) / 2)


@pytest.mark.slow
@pytest.mark.parametrize('greedy', cases([False, True], at_once=[True]))
def test_rows_of_two_models_are_of_what_both_say_together(greedy):
  decoding = dataclasses.replace(DECODING, top_k=0)
  batch, logprobs = mean_of_two(decoding, greedy=greedy)
  check(batch)
  taken, own, mask = (
      np.asarray(engine.actions(batch, batch[name], decoding.max_tokens))
      for name in ('tokens', 'sampler_logprobs', 'action_mask')
  )
  expected = np.take_along_axis(np.asarray(logprobs), taken[..., None], axis=-1)[..., 0]
  np.testing.assert_allclose(own[mask], expected[mask], atol=1e-5)
  if greedy:
    np.testing.assert_allclose(own[mask], np.asarray(logprobs.max(axis=-1))[mask], atol=1e-5)


def test_of_one_model_together_is_the_sampler():
  mix = lambda models, hidden, column: engine.adjusted_logits(
      models['one'], MODEL, DECODING, hidden['one'], column
  )
  batch = stepwise.together(
      {'one': PARAMS()}, {'one': MODEL}, PROMPTS, LENGTHS, jax.random.key(1), mix, group_size=GROUP_SIZE,
      decoding=DECODING, greedy=False,
  )
  expected, expected_logprobs, _ = sampled(DECODING)
  np.testing.assert_array_equal(engine.completions_of(batch, DECODING), expected)
  found = engine.actions(batch, batch['sampler_logprobs'], DECODING.max_tokens)
  np.testing.assert_allclose(found, expected_logprobs, atol=1e-5)


def test_every_model_needs_the_context():
  decoders = {'one': MODEL, 'other': MODEL.replace(context_length=8)}
  with pytest.raises(ValueError, match='do not fit the context of 8'):
    stepwise.together(
        {}, decoders, PROMPTS, LENGTHS, jax.random.key(1), None, group_size=2, decoding=DECODING, greedy=False
    )
