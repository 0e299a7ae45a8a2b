"""Draws have their exact probabilities, and thresholds are those of a sort, at every edge of float32."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from rlx.engine import sample as engine
from rlx.engine.decoding import Decoding
from rlx.kernels.sampler import BLOCK, inverse_cdf, top_k_threshold, top_p_threshold
from rlx.kernels.sampler_reference import (
  inverse_cdf_reference,
  top_k_threshold_reference,
  top_p_threshold_reference,
)
from rlx.models import transformer
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from tests.cases import cases

LAST = np.float32(1 - 2**-24)  # the largest number below 1
LARGEST = float(np.finfo(np.float32).max)
SIZES = (1, 2, 7, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5, 1000)
draw = jax.jit(inverse_cdf)
top_k = jax.jit(top_k_threshold)
top_p = jax.jit(top_p_threshold)
PLAIN = Decoding(
    max_tokens=2, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='inverse_cdf', eos_ids=(),
    pad_id=0,
)


def normal(*shape, scale=3.0, seed=0):
  draws = np.random.default_rng(seed).normal(scale=scale, size=shape)
  return np.clip(draws, -LARGEST, LARGEST).astype(np.float32)


def with_holes(logits, seed=0):
  """The logits with about half of each row's tokens left out, never all."""
  allowed = np.random.default_rng(seed).random(logits.shape) < 0.5
  allowed[..., 0] |= ~allowed.any(axis=-1)
  return np.where(allowed, logits, -np.inf).astype(np.float32)


def exact_cdf(logits):
  """[..., V] running sums of the softmax in float64."""
  masses = np.exp(logits.astype(np.float64) - logits.max(axis=-1, keepdims=True))
  return np.cumsum(masses, axis=-1) / masses.sum(axis=-1, keepdims=True)


# --- inverse_cdf ------------------------------------------------------------------------------------------


@pytest.mark.parametrize('size', cases([*SIZES, 40_000], at_once=(1, BLOCK + 1, 1000)))
def test_the_token_drawn_is_the_one_that_holds_the_number(size):
  logits = with_holes(normal(64, size))
  uniform = np.random.default_rng(1).random(64, np.float32)
  tokens = np.asarray(draw(logits, uniform))[:, None]
  running = np.pad(exact_cdf(logits), ((0, 0), (1, 0)))
  bound = 2**-23 + (BLOCK + size / BLOCK) * 2**-24  # as the docstring says
  assert (np.take_along_axis(running, tokens, axis=1)[:, 0] <= uniform + bound).all()
  assert (np.take_along_axis(running, tokens + 1, axis=1)[:, 0] >= uniform - bound).all()
  assert np.isfinite(np.take_along_axis(logits, tokens, axis=1)).all()
  near = np.abs(running - uniform[:, None]).min(axis=1) < bound
  assert near.mean() < 0.5 or size == 40_000
  np.testing.assert_array_equal(tokens[~near, 0], inverse_cdf_reference(logits, uniform)[~near])


@pytest.mark.parametrize('size', cases(SIZES, at_once=(1, 7, BLOCK, 3 * BLOCK + 5)))
@pytest.mark.parametrize('uniform', [0.0, 1e-45, 2**-23, 0.5, LAST])
def test_a_token_without_mass_is_never_drawn(size, uniform):
  """Whatever the number: tokens left out at the front, at the end, and in whole blocks in between."""
  rng = np.random.default_rng(size)
  logits = [with_holes(normal(40, size, scale=scale, seed=size), seed=size) for scale in (0, 1, 30, 1e38)]
  lone = np.full((40, size), -np.inf, np.float32)
  lone[np.arange(40), rng.integers(0, size, 40)] = rng.choice([-LARGEST, -1e-45, 0, LARGEST], 40)
  logits = np.concatenate([*logits, lone])
  tokens = np.asarray(draw(logits, np.full(len(logits), uniform, np.float32)))
  picked = np.take_along_axis(logits, tokens[:, None], axis=1)
  assert np.isfinite(picked).all()
  edge = {0.0: np.argmax, LAST: lambda x, axis: size - 1 - np.argmax(x[:, ::-1], axis=axis)}
  if uniform in edge:  # the first and the last token with mass, where all masses are equal
    np.testing.assert_array_equal(tokens[:40], edge[uniform](np.isfinite(logits[:40]), axis=1))


def test_rounding_at_the_borders_of_blocks_draws_no_token_without_mass():
  """Numbers at the borders, where what is left for the inside of the block may come out below zero."""
  logits = normal(300, 8 * BLOCK).reshape(300, 8, BLOCK)
  logits[:, :, :3] = logits[:, :, -3:] = -np.inf  # a block neither begins nor ends with mass
  logits = logits.reshape(300, -1)
  borders = exact_cdf(logits)[:, BLOCK - 1 :: BLOCK][:, :-1].astype(np.float32)
  near = np.concatenate([borders, np.nextafter(borders, 0), np.nextafter(borders, 1)], axis=1)
  every = np.broadcast_to(logits[:, None], (*near.shape, 8 * BLOCK))
  tokens = np.asarray(draw(every, near))
  assert np.isfinite(np.take_along_axis(every, tokens[..., None], axis=-1)).all()


def test_sums_that_end_below_the_number_give_the_last_token_with_mass():
  """No number in [0, 1) should come to that; a number of 1 shows what rounding would do."""
  logits = with_holes(normal(50, 3 * BLOCK + 5))
  logits[:, 2 * BLOCK :] = -np.inf
  tokens = draw(logits, np.ones(50, np.float32))
  np.testing.assert_array_equal(tokens, [np.flatnonzero(np.isfinite(row))[-1] for row in logits])


def test_a_grid_of_numbers_gives_the_probabilities_themselves():
  """Counts over 10,000 even numbers: each probability to one part of the grid."""
  logits, num = with_holes(normal(300)), 10_000
  grid = (np.arange(num, dtype=np.float32) + 0.5) / num
  tokens = draw(np.broadcast_to(logits, (num, 300)), grid)
  counts = np.bincount(tokens, minlength=300)
  np.testing.assert_allclose(counts, num * np.diff(exact_cdf(logits), prepend=0), atol=1.1)


def test_leading_axes_are_rows():
  logits, uniform = normal(2, 3, 200), np.random.default_rng(0).random((2, 3), np.float32)
  tokens = draw(logits, uniform)
  assert tokens.shape == (2, 3) and tokens.dtype == jnp.int32
  np.testing.assert_array_equal(tokens.reshape(-1), draw(logits.reshape(6, 200), uniform.reshape(-1)))
  np.testing.assert_array_equal(jax.jit(jax.vmap(jax.vmap(inverse_cdf)))(logits, uniform), tokens)


# --- thresholds -------------------------------------------------------------------------------------------


def edge_cases(size):
  """Rows of every kind that a threshold may meet."""
  rng, tiny = np.random.default_rng(size), np.finfo(np.float32).tiny
  rows = {
      'normal': normal(4, size),
      'flat': normal(4, size, scale=1e-3),
      'huge': normal(4, size, scale=1e38),
      'ties': rng.integers(-2, 3, (4, size)),
      'zeros_of_both_signs': rng.choice([-1.0, -0.0, 0.0, 1.0], (4, size)),
      'equal': np.full((1, size), -7.0),
      'extremes': rng.choice([-LARGEST, -1.0, -tiny, 0, tiny, 1.0, LARGEST], (4, size)),
  }
  rows = {name: x.astype(np.float32) for name, x in rows.items()}
  return np.concatenate([*rows.values(), *map(with_holes, rows.values())])


@pytest.mark.parametrize('size', cases((1, 7, BLOCK, 1000), at_once=(7, 1000)))
@pytest.mark.parametrize('k', [1, 2, 50, 10**6])
def test_top_k_is_that_of_a_sort(size, k):
  logits = edge_cases(size)
  threshold = np.asarray(top_k(logits, k))
  np.testing.assert_array_equal(threshold, top_k_threshold_reference(logits, k))
  kept = logits >= threshold[:, None]
  assert not kept[np.isneginf(logits)].any()
  allowed = np.isfinite(logits).sum(axis=1)
  assert (kept.sum(axis=1) >= np.minimum(k, allowed)).all()
  assert ((logits > threshold[:, None]).sum(axis=1) < k).all()


def mass_above(row, masses):
  """For each token, the sum of the masses of those with a larger logit."""
  order = np.argsort(row)
  from_here = np.append(np.cumsum(masses[order][::-1])[::-1], 0)
  return from_here[np.searchsorted(row[order], row, side='right')]


@pytest.mark.parametrize('size', cases((1, 7, BLOCK, 1000), at_once=(7, 1000)))
@pytest.mark.parametrize('p', [1e-45, 1e-6, 0.1, 0.5, 0.901, 0.9999])
def test_top_p_is_that_of_a_sort(size, p):
  """Against a sort in float64, where no mass is within rounding of p; ties are kept together."""
  logits = edge_cases(size)
  threshold = np.asarray(top_p(logits, p), np.float64)
  masses = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
  masses /= masses.sum(axis=1, keepdims=True)
  above = np.stack(list(map(mass_above, logits, masses)))
  sure = np.abs(above - p).min(axis=1) > 1e-5
  sure |= np.all((above == 0) | (above > 2 * p), axis=1)
  expected = np.min(np.where((above < p) & np.isfinite(logits), logits, np.inf), axis=1)
  assert sure.mean() > 0.6
  np.testing.assert_array_equal(threshold[sure], expected[sure])
  reference = np.asarray(top_p_threshold_reference(logits, p))
  np.testing.assert_array_equal(threshold[sure & (p > 1e-30)], reference[sure & (p > 1e-30)])
  loose = np.where(np.isfinite(logits) & (logits >= threshold[:, None]), above, 0)
  assert (loose < p + 1e-5).all()  # the others are right to rounding
  assert (masses * (logits >= threshold[:, None])).sum(axis=1).min() > min(p, 1) - 1e-5


@pytest.mark.parametrize('threshold', [lambda x: top_k_threshold(x, 3), lambda x: top_p_threshold(x, 0.5)])
def test_where_nothing_is_allowed_nothing_is_kept(threshold):
  assert np.isposinf(threshold(np.full((2, 9), -np.inf, np.float32))).all()


def sorted_adjust(decoding, logits):
  """`Decoding.adjust` with the thresholds of a sort."""
  logits = logits / decoding.temperature
  keep = jnp.ones_like(logits, bool)
  if decoding.top_k:
    keep &= logits >= top_k_threshold_reference(logits, decoding.top_k)[..., None]
  if decoding.top_p < 1:
    filtered = jnp.where(keep, logits, -jnp.inf)
    keep &= logits >= top_p_threshold_reference(filtered, decoding.top_p)[..., None]
  return jnp.where(keep, logits, -jnp.inf)


@pytest.mark.parametrize(
    'changes', [{'top_k': 4}, {'top_p': 0.7}, {'temperature': 0.7, 'top_k': 20, 'top_p': 0.9}], ids=str
)
def test_filters_and_their_gradients_are_those_of_a_sort(changes):
  decoding, logits = dataclasses.replace(PLAIN, **changes), normal(6, 50)
  weights = normal(6, 50, seed=1)

  def total(adjust, logits):
    adjusted = adjust(logits)
    logprobs = jax.nn.log_softmax(adjusted)
    return jnp.sum(jnp.where(jnp.isfinite(adjusted), weights * logprobs, 0)), adjusted

  results = [
      jax.jit(jax.value_and_grad(functools.partial(total, adjust), has_aux=True))(logits)
      for adjust in (decoding.adjust, functools.partial(sorted_adjust, decoding))
  ]
  jax.tree.map(np.testing.assert_array_equal, *results)
  assert 0 < np.isfinite(results[0][0][1]).mean() < 1 and np.any(results[0][1])
  tangent = jax.jvp(decoding.adjust, (logits,), (weights,))[1]
  kept = np.isfinite(results[0][0][1])
  np.testing.assert_allclose(tangent, np.where(kept, weights / decoding.temperature, 0), rtol=1e-6)


# --- through the sampling engine --------------------------------------------------------------------------

VOCAB, NUM = 8, 6000
CONFIG = TransformerConfig(
    vocab_size=VOCAB, num_layers=1, width=16, num_heads=2, num_kv_heads=1, head_size=8, mlp_size=16,
    context_length=8,
)
MODEL = LanguageModel(CONFIG)
PROMPT = jnp.array([[3, 5, 2]])
sample = jax.jit(engine.sample, static_argnums=1, static_argnames=('group_size', 'decoding'))
DECODINGS = {
    'temperature': {'temperature': 1.5},
    'top_k': {'temperature': 0.8, 'top_k': 4},
    'top_p': {'temperature': 1.3, 'top_p': 0.8},
}


@functools.cache
def make_params():
  shapes = jax.eval_shape(functools.partial(transformer.init, config=CONFIG), jax.random.key(0))
  rng = np.random.default_rng(2)
  return jax.tree.map(lambda x: jnp.array(0.8 * rng.normal(size=x.shape), jnp.float32), shapes)


@functools.cache
def next_logits():
  """[V, T, V] float64: what follows each column of the prompt and any one token."""
  rows = jnp.concatenate([jnp.tile(PROMPT, (VOCAB, 1)), jnp.arange(VOCAB)[:, None]], axis=1)
  hidden, _ = transformer.forward(make_params(), CONFIG, rows)
  return np.asarray(transformer.logits(make_params(), CONFIG, hidden), np.float64)


def probabilities(logits, decoding):
  """The filtered softmax, with a sort and a loop."""
  probs = np.exp(logits / decoding.temperature)
  ranking = np.argsort(-probs)[: decoding.top_k or VOCAB]
  total, kept = probs[ranking].sum(), []
  for token in ranking:
    if probs[kept].sum() >= decoding.top_p * total and decoding.top_p < 1:
      break
    kept.append(token)
  out = np.zeros(VOCAB)
  out[kept] = probs[kept] / probs[kept].sum()
  return out


def p_value(counts, decoding):
  """χ² of counts [V, V] of pairs against p(a) p(b | a); 0 where something impossible was drawn."""
  first = probabilities(next_logits()[0, -2], decoding)
  expected = NUM * first[:, None] * np.stack([probabilities(row[-1], decoding) for row in next_logits()])
  if counts[expected == 0].any():
    return 0.0
  common = expected >= 5
  join = lambda x: np.append(x[common], x[~common].sum())
  observed, expected = join(counts), join(expected)
  return scipy.stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue


@pytest.mark.parametrize(('sampler', 'name'), cases(
    itertools.product(['gumbel', 'inverse_cdf'], DECODINGS),
    at_once=[('gumbel', 'temperature'), ('inverse_cdf', 'top_p')],
))
def test_pairs_of_tokens_have_their_exact_probabilities(sampler, name):
  decoding = dataclasses.replace(PLAIN, sampler=sampler, **DECODINGS[name])
  batch = sample(
      make_params(), MODEL, PROMPT, jnp.array([3]), jax.random.key(7), group_size=NUM, decoding=decoding
  )
  pairs = np.asarray(batch['tokens'])[:, 3:]
  counts = np.zeros((VOCAB, VOCAB))
  np.add.at(counts, tuple(pairs.T), 1)
  assert p_value(counts, decoding) > 1e-4
  wrong = dataclasses.replace(decoding, temperature=1.25 * decoding.temperature)
  assert p_value(counts, wrong) < 1e-4
  picked = probabilities(next_logits()[0, -2], decoding)[pairs[:, 0]]
  picked *= np.stack([probabilities(row[-1], decoding) for row in next_logits()])[tuple(pairs.T)]
  np.testing.assert_allclose(batch['sampler_logprobs'].sum(axis=1), np.log(picked), rtol=1e-4, atol=1e-5)


def test_a_number_a_draw_is_decided_by_the_key_and_the_sequence():
  """Sequences keep what they say when their neighbours change; others and other keys say something else."""
  decoding = dataclasses.replace(PLAIN, max_tokens=5)
  run = lambda key, ids: np.asarray(
      sample(
          make_params(), MODEL, PROMPT, jnp.array([3]), jax.random.key(key), group_size=4, decoding=decoding,
          sequence_ids=jnp.array(ids),
      )['tokens']
  )
  base = run(0, [0, 1, 2, 3])
  np.testing.assert_array_equal(run(0, [2, 1, 7, 1])[[0, 1, 3]], base[[2, 1, 1]])
  assert len(np.unique(base, axis=0)) == 4
  assert (run(1, [0, 1, 2, 3]) != base).any(axis=1).all()
