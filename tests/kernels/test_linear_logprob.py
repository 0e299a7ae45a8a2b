"""The chunked operation says what the plain one says, and never holds all logits."""

import functools
import math

import jax
from jax.extend import core
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.kernels.linear_logprob import TokenStatistics, keep_logits, linear_logprob
from rlx.kernels.linear_logprob_reference import linear_logprob_reference
from rlx.models.transformer import softcap
from tests.cases import cases

DECODING = {
    'max_tokens': 1, 'min_tokens': 0, 'temperature': 1.0, 'top_k': 0, 'top_p': 1.0, 'sampler': 'gumbel',
    'eos_ids': (), 'pad_id': 0,
}
ADJUST = {
    'softcap': lambda logits, targets: softcap(logits, 2.0),
    **{
        name: Decoding(**{**DECODING, **changes}).adjust
        for name, changes in {
            'temperature': {'temperature': 0.6},
            'top_k': {'top_k': 3},
            'top_p': {'top_p': 0.5},
            'all_filters': {'temperature': 1.5, 'top_k': 5, 'top_p': 0.7},
        }.items()
    },
    'filter_behind_softcap': lambda logits, targets: Decoding(**{**DECODING, 'top_k': 4}).adjust(
        softcap(logits, 2.0), targets
    ),
}


def arguments(num_tokens, width, vocab_size, dtype=jnp.float32):
  rng = np.random.default_rng(num_tokens * vocab_size)
  normal = lambda *shape: jnp.array(rng.normal(size=shape), dtype)
  targets = jnp.array(rng.integers(0, vocab_size, num_tokens), jnp.int32)
  return normal(num_tokens, width), normal(vocab_size, width), targets


def with_gradient(operation, hidden, unembedding, targets):
  """The four outputs, and the gradient of a sum that weighs every one of their entries differently."""

  weights = np.random.default_rng(0).normal(size=(4, targets.size)).astype(np.float32)

  def total(hidden, unembedding):
    statistics = operation(hidden, unembedding, targets)
    return jnp.sum(weights * jnp.stack(statistics)), statistics

  gradients, statistics = jax.jit(jax.grad(total, (0, 1), has_aux=True))(hidden, unembedding)
  return statistics, gradients


def assert_same(adjusted, shape, chunk_size):
  args = arguments(*shape)
  chunked = functools.partial(linear_logprob, chunk_size=chunk_size, **adjusted)
  plain = functools.partial(linear_logprob_reference, **adjusted)
  results = [with_gradient(operation, *args) for operation in (chunked, plain)]
  close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-5)
  jax.tree.map(close, *results)
  assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(results))


@pytest.mark.parametrize(
    ('shape', 'chunk_size'),
    cases([
        ((12, 8, 10), 4),
        ((7, 5, 11), 3),  # the last chunk is padded
        ((2, 8, 10), 64),  # fewer tokens than a chunk
        ((5, 8, 10), 1),
        ((5, 1, 3), 2),
        ((5, 4, 1), 2),  # one word: log 1 and no entropy
    ], at_once=[((7, 5, 11), 3), ((5, 4, 1), 2)]),
    ids=str,
)
def test_value_and_gradient_over_odd_shapes(shape, chunk_size):
  assert_same({}, shape, chunk_size)


@pytest.mark.parametrize('name', cases(ADJUST, at_once=('softcap', 'all_filters')))
def test_value_and_gradient_under_adjusted_logits(name):
  assert_same({'adjust': ADJUST[name]}, (7, 5, 11), 3)


def test_by_hand():
  """Logits (log 1, log 3): probabilities (1/4, 3/4)."""
  logits = jnp.log(jnp.array([[1.0], [3.0]]))
  statistics = linear_logprob(jnp.ones((1, 1)), logits, jnp.array([1]), chunk_size=1)
  np.testing.assert_allclose(statistics.logprobs, [np.log(3 / 4)], rtol=1e-6)
  np.testing.assert_allclose(statistics.entropy, [-(np.log(1 / 4) / 4 + 3 * np.log(3 / 4) / 4)], rtol=1e-6)
  np.testing.assert_allclose(statistics.logsumexp, [np.log(4)], rtol=1e-6)


def test_targets_outside_the_filter_are_kept_and_others_carry_no_gradient():
  hidden, unembedding = jnp.ones((1, 1)), jnp.array([[5.0], [4.0], [3.0], [2.0]])
  adjust = Decoding(**{**DECODING, 'top_k': 2}).adjust
  logprob = lambda unembedding: linear_logprob(
      hidden, unembedding, jnp.array([3]), chunk_size=1, adjust=adjust
  ).logprobs[0]
  kept = np.exp([5.0, 4.0, 2.0])
  np.testing.assert_allclose(logprob(unembedding), np.log(kept[2] / kept.sum()), rtol=1e-5)
  probs = kept / kept.sum()
  np.testing.assert_allclose(
      jax.grad(logprob)(unembedding)[:, 0], [-probs[0], -probs[1], 0, 1 - probs[2]], rtol=1e-4, atol=1e-7
  )


@pytest.mark.parametrize('axes', [(0, 0, 0), (0, None, None)], ids=['population', 'shared_weights'])
def test_vmap(axes):
  members = [arguments(5, 4, 7), arguments(5, 4, 7)]
  members[1] = tuple(-x if x.dtype == jnp.float32 else (x + 1) % 7 for x in members[1])
  members[1] = tuple(b if axis == 0 else a for a, b, axis in zip(*members, axes, strict=True))
  stacked = tuple(
      jnp.stack([a, b]) if axis == 0 else a for a, b, axis in zip(*members, axes, strict=True)
  )
  evaluate = functools.partial(with_gradient, functools.partial(linear_logprob, chunk_size=2))
  together = jax.vmap(evaluate, in_axes=axes)(*stacked)
  for i, member in enumerate(members):
    one = jax.tree.map(lambda x, i=i: x[i], together)
    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), one, evaluate(*member))


def equations(jaxpr):
  """The equations of a program, those of its inner programs included."""
  for equation in jaxpr.eqns:
    yield equation
    for inner in core.jaxprs_in_params(equation.params):
      yield from equations(inner)


def sizes(jaxpr):
  """How many numbers each array of a program holds."""
  return (math.prod(v.aval.shape) for equation in equations(jaxpr) for v in equation.outvars)


@pytest.mark.parametrize('counted', [None, 5])
@pytest.mark.parametrize('adjust', [None, 'softcap', 'all_filters'])
def test_all_logits_are_never_held(adjust, counted):
  """Nothing as large as [N, V] exists, forward or backward; that the reference has it shows that we look."""
  num_tokens, vocab_size, chunk_size = 64, 50, 4
  args = arguments(num_tokens, 3, vocab_size)
  adjusted = {'adjust': ADJUST[adjust]} if adjust else {}

  def largest(operation):
    operation = functools.partial(operation, **adjusted)
    programs = operation, functools.partial(with_gradient, operation)
    return [max(sizes(jax.make_jaxpr(program)(*args).jaxpr)) for program in programs]

  chunked = functools.partial(
      linear_logprob, chunk_size=chunk_size, num_counted=counted and jnp.int32(counted)
  )
  assert max(largest(chunked)) < num_tokens * vocab_size / 4
  assert min(largest(linear_logprob_reference)) >= num_tokens * vocab_size


# --- tokens that count ------------------------------------------------------------------------------------

COUNTS = (0, 1, 4, 6, 10, 11, 30)  # of 11 tokens in chunks of 4: whole chunks, parts of them, and too many


@pytest.mark.slow
@pytest.mark.parametrize('adjust', [keep_logits, ADJUST['all_filters']], ids=['plain', 'filtered'])
def test_tokens_that_count_say_what_they_say_among_others(adjust):
  """Values and gradients against the reference under a mask; the others hold NaN and targets out of range."""
  hidden, unembedding, targets = arguments(11, 5, 9)

  @jax.jit
  def chunked(hidden, targets, count):
    operation = functools.partial(linear_logprob, chunk_size=4, adjust=adjust, num_counted=count)
    return with_gradient(operation, hidden, unembedding, targets)

  @jax.jit
  def plain(count):
    mask = lambda statistics: [jnp.where(jnp.arange(11) < count, x, 0) for x in statistics]
    operation = lambda *args: TokenStatistics(*mask(linear_logprob_reference(*args, adjust=adjust)))
    return with_gradient(operation, hidden, unembedding, targets)

  everything = chunked(hidden, targets, 11)
  for count in COUNTS:
    counts = np.arange(11) < count
    garbage = jnp.where(counts[:, None], hidden, jnp.nan), jnp.where(counts, targets, 2**30)
    statistics, gradients = chunked(*garbage, count)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-5)
    jax.tree.map(close, (statistics, gradients), plain(count))
    for x, y in zip((*statistics, gradients[0]), (*everything[0], everything[1][0]), strict=True):
      np.testing.assert_array_equal(x[counts], y[counts])  # to the bit
      np.testing.assert_array_equal(x[~counts], 0)


def test_garbage_in_the_cotangents_of_what_does_not_count_reaches_nothing():
  hidden, unembedding, targets = arguments(11, 5, 9)
  operation = lambda *args: linear_logprob(*args, targets, chunk_size=4, num_counted=jnp.int32(6))
  _, pull = jax.vjp(operation, hidden, unembedding)
  cotangents = [np.ones(11, np.float32), np.where(np.arange(11) < 6, 1, np.nan).astype(np.float32)]
  clean, garbage = (pull(TokenStatistics(*[jnp.array(x)] * 4)) for x in cotangents)
  jax.tree.map(np.testing.assert_array_equal, clean, garbage)


def test_chunks_behind_those_that_count_are_not_computed():
  calls = []

  def adjust(logits, targets):
    jax.debug.callback(lambda: calls.append(1))
    return logits

  operation = functools.partial(linear_logprob, chunk_size=4, adjust=adjust)
  hidden, unembedding, targets = arguments(19, 5, 9)
  forward = jax.jit(lambda count: operation(hidden, unembedding, targets, num_counted=count))
  total = lambda hidden, count: operation(hidden, unembedding, targets, num_counted=count).logprobs.sum()
  for program, passes in ((forward, 1), (functools.partial(jax.jit(jax.grad(total)), hidden), 2)):
    for count in (0, 1, 4, 5, 19):
      calls.clear()
      jax.block_until_ready(program(jnp.int32(count)))
      jax.effects_barrier()
      assert len(calls) == passes * -(-count // 4)


@pytest.mark.parametrize('counted', [None, 700])
def test_memory_is_that_of_a_chunk(counted):
  """What the compiler sets aside for value and gradients, beside what the reference needs."""
  num_tokens, width, vocab_size, chunk_size = 1024, 8, 1000, 64
  args = arguments(num_tokens, width, vocab_size)

  def temporary(operation):
    program = jax.jit(functools.partial(with_gradient, operation)).lower(*args).compile()
    return program.memory_analysis().temp_size_in_bytes

  logits = 4 * num_tokens * vocab_size
  chunked = functools.partial(
      linear_logprob, chunk_size=chunk_size, num_counted=counted and jnp.int32(counted)
  )
  assert temporary(chunked) < logits / 2
  assert temporary(linear_logprob_reference) > logits


@pytest.mark.parametrize('counted', [None, 5])
def test_every_matrix_product_is_of_the_operands_dtype(counted):
  """bfloat16 activations and float32 weights: no product of the backward pass falls back to float32."""
  hidden, unembedding, targets = arguments(8, 4, 6)
  total = lambda hidden, unembedding: linear_logprob(
      hidden, unembedding, targets, chunk_size=4, num_counted=counted and jnp.int32(counted)
  ).logprobs.sum()
  program = jax.make_jaxpr(jax.grad(total, (0, 1)))(hidden.astype(jnp.bfloat16), unembedding)
  products = [e for e in equations(program.jaxpr) if e.primitive.name == 'dot_general']
  assert len(products) == 4  # the logits, twice, and a gradient of each operand
  assert {v.aval.dtype for e in products for v in e.invars} == {jnp.dtype('bfloat16')}


# --- accuracy ---------------------------------------------------------------------------------------------


def test_bfloat16_is_as_accurate_as_the_reference():
  """Both against float32 on the same rounded numbers: chunks may not cost accuracy, gradients included."""
  args = arguments(96, 32, 40, jnp.bfloat16)
  exact = with_gradient(linear_logprob_reference, *(x.astype(jnp.float32) for x in args[:2]), args[2])
  chunked = with_gradient(functools.partial(linear_logprob, chunk_size=7), *args)
  plain = with_gradient(linear_logprob_reference, *args)
  assert all(x.dtype == jnp.float32 for x in chunked[0])
  assert all(x.dtype == jnp.bfloat16 for x in chunked[1])
  error = lambda x, y: float(jnp.sqrt(jnp.mean(jnp.square(x.astype(jnp.float32) - y))))
  for ours, theirs, truth in zip(*(jax.tree.leaves(x) for x in (chunked, plain, exact)), strict=True):
    scale = float(jnp.sqrt(jnp.mean(jnp.square(truth))))
    assert error(ours, truth) <= 1.5 * error(theirs, truth) + 1e-6 * scale


def test_half_precision_hidden_states_meet_float32_weights():
  hidden, unembedding, targets = arguments(6, 8, 10)
  statistics = linear_logprob(hidden.astype(jnp.bfloat16), unembedding, targets, chunk_size=2)
  expected = linear_logprob_reference(
      hidden.astype(jnp.bfloat16), unembedding.astype(jnp.bfloat16), targets
  )
  jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), statistics, expected)


def test_entropy_of_a_sure_distribution_is_not_negative():
  """Logits around 100 have a spacing of 8e-6: neither entropy nor log-probability is their difference."""
  hidden = jnp.linspace(1.0, 1.1, 50)[:, None] * jnp.ones((1, 2))
  unembedding = jnp.array([[64.0, 36.0], [40.0, 40.0], [35.0, 35.0]])
  statistics = linear_logprob(hidden, unembedding, jnp.zeros(50, int), chunk_size=50)
  gap = 20 * np.asarray(hidden[:, 0], np.float64)
  np.testing.assert_allclose(statistics.entropy, gap * np.exp(-gap), rtol=1e-3)  # log(1 + e^-gap) is 0
  np.testing.assert_allclose(statistics.logprobs, 0, atol=1e-7)


def test_no_chunk_sees_another():
  """The gradient of one token's log-probability touches that token's hidden state alone."""
  args = arguments(7, 5, 11)
  gradient = jax.grad(lambda h: linear_logprob(h, *args[1:], chunk_size=3).logprobs[4])(args[0])
  np.testing.assert_array_equal(np.abs(gradient).sum(axis=1) > 0, np.arange(7) == 4)


def test_the_gradient_of_float32_weights_keeps_float32_under_bfloat16_activations():
  keys = jax.random.split(jax.random.key(0), 3)
  hidden = jax.random.normal(keys[0], (64, 8)).astype(jnp.bfloat16)
  weights = jax.random.normal(keys[1], (12, 8))
  targets = jax.random.randint(keys[2], (64,), 0, 12)
  loss = lambda w: linear_logprob(hidden, w, targets, chunk_size=16).logprobs.sum()
  gradient = jax.grad(loss)(weights)
  assert gradient.dtype == jnp.float32
  assert (gradient != gradient.astype(jnp.bfloat16).astype(jnp.float32)).any()
