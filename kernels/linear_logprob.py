"""Log-probabilities from hidden states without ever holding all logits.

`linear_logprob` is the last matrix product, the softmax and the look-up of the target in one operation that
walks over the tokens in chunks, forward and backward: of the [N, V] logits only [chunk, V] exists at a time.
Where the tokens that count stand in front, the chunks behind them are skipped.
`linear_logprob_reference.py` says the same in four lines and serves the tests.
"""

from collections.abc import Callable
import functools
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

Adjust = Callable[[jax.Array, jax.Array], jax.Array]  # (logits [C, V], targets [C]) -> logits


class TokenStatistics(NamedTuple):
  """Per token [N], float32."""

  logprobs: jax.Array  # of the target
  entropy: jax.Array  # in nats
  logsumexp: jax.Array  # of the adjusted logits
  collision: jax.Array  # Σ_v π(v)², the chance that two samples agree


def keep_logits(logits: jax.Array, targets: jax.Array) -> jax.Array:
  """The identity for `adjust`."""
  del targets
  return logits


def linear_logprob(
    hidden: jax.Array,
    unembedding: jax.Array,
    targets: jax.Array,
    *,
    chunk_size: int,
    adjust: Adjust = keep_logits,
    num_counted: jax.Array | None = None,
) -> TokenStatistics:
  """Log-probability, entropy, log-sum-exp and collision of softmax(adjust(hidden @ unembedding.T)).

  Args:
    hidden: [N, D] in the dtype of the matrix product, which accumulates in float32.
    unembedding: [V, D].
    targets: [N] int32.
    chunk_size: tokens whose logits exist at one time.
    adjust: `(logits [C, V] float32, targets [C]) -> logits`, e.g. a temperature or a top-p filter, which
      marks what it leaves out with -inf; it must keep the targets.
    num_counted: [] int32; only the first so many tokens count. Those behind them have zeros for statistics
      and gradients whatever they hold, and chunks of them cost nothing; under `vmap` over the number they are
      computed and thrown away. All count if not given.
  Returns:
    Four [N] float32 arrays.
  """
  chex.assert_rank([hidden, unembedding, targets], [2, 2, 1])
  num_tokens = targets.shape[0]
  chunk_size = min(chunk_size, num_tokens)
  padding = -num_tokens % chunk_size
  counted = None
  if num_counted is not None:
    chex.assert_rank(num_counted, 0)
    counted = jnp.arange(num_tokens) < num_counted
    hidden = jnp.where(counted[:, None], hidden, 0)  # a chunk may count in part, and the rest be NaN
    targets = jnp.where(counted, targets, 0)
    counted = jnp.pad(counted, (0, padding))
  hidden = jnp.pad(hidden, ((0, padding), (0, 0)))
  targets = jnp.pad(targets, (0, padding))
  statistics = _chunked(chunk_size, adjust, hidden, unembedding, targets, counted)
  return TokenStatistics(*(x[:num_tokens] for x in statistics))


def _logits(hidden, unembedding):
  return jnp.einsum('cd,vd->cv', hidden, unembedding, preferred_element_type=jnp.float32)


def _statistics(logits, targets) -> TokenStatistics:
  # Not logits - logsumexp: the log-probability of a sure token would drown in the rounding of large logits.
  logprobs = jax.nn.log_softmax(logits)
  probs = jnp.exp(logprobs)
  entropy = -jnp.sum(jnp.where(probs > 0, probs * logprobs, 0), axis=-1)
  picked = jnp.take_along_axis(logprobs, targets[:, None], axis=-1)[:, 0]
  collision = jnp.sum(jnp.square(probs), axis=-1)
  return TokenStatistics(picked, entropy, jax.nn.logsumexp(logits, axis=-1), collision)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _chunked(chunk_size, adjust, hidden, unembedding, targets, counted) -> TokenStatistics:
  """`counted` [N] bool: True on the tokens in front that count; None where all do."""
  weights = unembedding.astype(hidden.dtype)

  def chunk(x):
    hidden, targets, counted = x
    compute = lambda: _masked(counted, _statistics(adjust(_logits(hidden, weights), targets), targets))
    nothing = lambda: TokenStatistics(*[jnp.zeros(chunk_size, jnp.float32)] * 4)
    return _if_any(counted, compute, nothing)

  parts = _split(chunk_size, (hidden, targets, counted))
  return jax.tree.map(lambda x: x.reshape(-1), jax.lax.map(chunk, parts))


def _split(chunk_size, arrays):
  """The arrays [N, ...] as [N / chunk_size, chunk_size, ...]."""
  return jax.tree.map(lambda x: x.reshape(-1, chunk_size, *x.shape[1:]), arrays)


def _masked(counted, statistics):
  """The statistics with zeros where a token does not count."""
  return statistics if counted is None else TokenStatistics(*(jnp.where(counted, x, 0) for x in statistics))


def _if_any(counted, compute, skip):
  """compute() where a token of the chunk counts, else skip()."""
  return compute() if counted is None else jax.lax.cond(counted[0], compute, skip)  # they stand in front


def _chunked_forward(chunk_size, adjust, hidden, unembedding, targets, counted):
  statistics = _chunked(chunk_size, adjust, hidden, unembedding, targets, counted)
  return statistics, (hidden, unembedding, targets, counted, statistics.entropy)


def _chunked_backward(chunk_size, adjust, residuals, cotangents):
  hidden, unembedding, targets, counted, entropy = residuals
  weights = unembedding.astype(hidden.dtype)  # cast in here: their gradient is summed and kept in float32
  cotangents = _masked(counted, cotangents)

  def backward(total, x):
    hidden, targets, counted, entropy, cotangents = x

    def gradients():
      grad = _grad_logits(adjust, _logits(hidden, weights), targets, entropy, cotangents).astype(hidden.dtype)
      grad_weights = jnp.einsum('cv,cd->vd', grad, hidden, preferred_element_type=jnp.float32)
      return total + grad_weights, jnp.einsum('cv,vd->cd', grad, weights)

    return _if_any(counted, gradients, lambda: (total, jnp.zeros_like(hidden)))

  total = jnp.zeros(unembedding.shape, jnp.float32)
  parts = _split(chunk_size, (hidden, targets, counted, entropy, cotangents))
  total, grad_hidden = jax.lax.scan(backward, total, parts)
  return grad_hidden.reshape(hidden.shape), total.astype(unembedding.dtype), None, None


def _grad_logits(adjust, logits, targets, entropy, cotangents):
  """[C, V] float32: the gradient of the raw logits of a chunk."""
  logits, pull = jax.vjp(lambda raw: adjust(raw, targets), logits)
  logprobs = jax.nn.log_softmax(logits)
  probs = jnp.exp(logprobs)
  # d logprob = onehot - p,  d entropy = -p (log p + H),  d logsumexp = p,  d collision = 2 p (p - Σ p²)
  grad = probs * (cotangents.logsumexp - cotangents.logprobs)[:, None]
  surprise = jnp.where(probs > 0, logprobs, 0) + entropy[:, None]
  grad -= probs * surprise * cotangents.entropy[:, None]
  collision = jnp.sum(jnp.square(probs), axis=-1, keepdims=True)
  grad += 2 * probs * (probs - collision) * cotangents.collision[:, None]
  onehot = jax.nn.one_hot(targets, grad.shape[1], dtype=bool)
  grad += jnp.where(onehot, cotangents.logprobs[:, None], 0)
  return pull(grad)[0]


_chunked.defvjp(_chunked_forward, _chunked_backward)
