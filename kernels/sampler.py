"""Drawing a token from one uniform number, and the edges of top-k and top-p without sorting the vocabulary.

`inverse_cdf` costs one exponential a token where the Gumbel trick costs a random number and two logarithms.
The thresholds are found by halving the range of float32 numbers, which is as exact as a sort. All work on
the trailing axis V, on float32 logits in which -inf marks a token that is not allowed. What they compute is
said with a sort and a full running sum in `sampler_reference.py`, which serves the tests.
"""

import jax
import jax.numpy as jnp

BLOCK = 128  # tokens whose masses are summed before the search


def inverse_cdf(logits: jax.Array, uniform: jax.Array) -> jax.Array:
  """The tokens at which the running sums of softmax(logits) pass the uniform numbers.

  The search is over the running sums of blocks, then inside one block. A token without mass is never drawn,
  whatever the rounding: only tokens with mass are searched, and where the sums end below the number, the last
  one of them is drawn.

  The running sums are of float32: over n blocks they are off by at most 2⁻²⁴ (128 + n) of themselves, in
  practice by far less. A uniform number of `jax.random` has 23 random bits and cuts [0, 1) into steps of
  2⁻²³ = 1.2·10⁻⁷: a token comes out with its probability to within one step, and one of less than a step
  perhaps never.

  Args:
    logits: [..., V] float32, at least one of a row finite.
    uniform: [...] float32 in [0, 1).
  Returns:
    [...] int32.
  """
  masses = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
  padding = [(0, 0)] * (logits.ndim - 1) + [(0, -logits.shape[-1] % BLOCK)]
  masses = jnp.pad(masses, padding).reshape(*logits.shape[:-1], -1, BLOCK)
  blocks = jnp.sum(masses, axis=-1)
  running = jnp.cumsum(blocks, axis=-1)
  target = uniform * running[..., -1]
  block = _first_above(running, blocks, target)
  pick = lambda array: jnp.take_along_axis(array, block[..., None], axis=-1)[..., 0]
  masses = jnp.take_along_axis(masses, block[..., None, None], axis=-2)[..., 0, :]
  target -= pick(running) - pick(blocks)
  return block * BLOCK + _first_above(jnp.cumsum(masses, axis=-1), masses, target)


def _first_above(running, masses, target):
  """[...]: the first position with mass whose running sum is above the target, else the last with mass."""
  index = jnp.arange(masses.shape[-1], dtype=jnp.int32)
  has_mass = masses > 0
  passed = has_mass & (running > target[..., None])
  last = jnp.max(jnp.where(has_mass, index, 0), axis=-1)
  # Sums in parallel need not grow: the first is asked for, not how many there are.
  return jnp.min(jnp.where(passed, index, last[..., None]), axis=-1)


def top_k_threshold(logits: jax.Array, k: int) -> jax.Array:
  """[...] float32: the smallest of the k largest logits of [..., V].

  A token is kept where its logit is no smaller, ties included. All are where fewer than k are allowed.
  """
  logits = jax.lax.stop_gradient(logits)
  return _smallest_kept(logits, jnp.ones_like(logits, jnp.int32), k)


def top_p_threshold(logits: jax.Array, p: float) -> jax.Array:
  """[...] float32: the smallest logit of [..., V] above which there is less than p of the probability.

  A token is kept where its logit is no smaller: the likeliest always, equal ones together.
  """
  logits = jax.lax.stop_gradient(logits)
  masses = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
  return _smallest_kept(logits, masses, p * jnp.sum(masses, axis=-1))


def _smallest_kept(logits, masses, budget):
  """[...]: the smallest allowed logit above which the masses sum to less than the budget; inf if none is.

  32 halvings of the range of float32 numbers, which as integers stand in the same order. A sum over fewer
  tokens, in the same order of additions, is never rounded to a larger one: each halving is certain.
  """

  def halve(_, bounds):
    low, high = bounds
    middle = (low & high) + ((low ^ high) >> 1)  # the mean; low + high could overflow
    above = jnp.where(logits > _from_ordered(middle)[..., None], masses, 0)
    enough = jnp.sum(above, axis=-1) < budget
    return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

  high = _to_ordered(jnp.max(logits, axis=-1))  # nothing is above the largest: it is kept
  low = jnp.full_like(high, _to_ordered(jnp.float32(-jnp.inf)))
  _, edge = jax.lax.fori_loop(0, 32, halve, (low, high))
  kept = (logits >= _from_ordered(edge)[..., None]) & (logits > -jnp.inf)
  return jnp.min(jnp.where(kept, logits, jnp.inf), axis=-1)


def _to_ordered(x):
  """Integers that stand in the order of the float32 numbers, -0 right before 0."""
  bits = jax.lax.bitcast_convert_type(x, jnp.int32)
  return jnp.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def _from_ordered(x):
  return jax.lax.bitcast_convert_type(jnp.where(x < 0, x ^ 0x7FFFFFFF, x), jnp.float32)
