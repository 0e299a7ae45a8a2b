"""Shuffled orders that are computed, not stored: where an element stands is a function of a key.

A run that is resumed needs only the key and a count to go on with the same order, and an order over millions
of rows takes no memory. The order is a format-preserving cipher: a Feistel network permutes the next power of
two of numbers, and a number outside 0..N-1 is enciphered again until it falls inside.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.types import Key

_NUM_ROUNDS = 8
_MAX_CYCLE = 1000  # draws in which sources take turns


class Mixture(NamedTuple):
  """Several sources of rows, drawn from in turn so that any stretch of draws has each share.

  Rows have numbers: those of the first source from 0 on, then those of the next.

  Attributes:
    sizes: rows of each source.
    cycle: which source each of C consecutive draws is of; the cycle repeats.
  """

  sizes: tuple[int, ...]
  cycle: tuple[int, ...]

  @property
  def num_rows(self) -> int:
    """Rows of all sources."""
    return sum(self.sizes)


def mixture(sizes: Sequence[int], shares: Sequence[float]) -> Mixture:
  """Sources with their shares; what does not come out even is rounded to thousandths.

  Args:
    sizes: rows of each source.
    shares: weights of the draws, one a source, in any unit.
  Raises:
    ValueError: a share is not above 0, or far below a thousandth of all.
  """
  if not shares or min(shares) <= 0:
    raise ValueError(f'shares {tuple(shares)}: each is above 0')
  parts = [share / sum(shares) for share in shares]
  whole = lambda length: all(abs(part * length - round(part * length)) < 1e-6 for part in parts)
  length = next(filter(whole, range(1, _MAX_CYCLE)), _MAX_CYCLE)
  counts = [int(part * length) for part in parts]
  by_rest = sorted(range(len(parts)), key=lambda k: counts[k] - parts[k] * length)
  for k in by_rest[: length - sum(counts)]:
    counts[k] += 1
  if min(counts) < 1:
    raise ValueError(f'shares {tuple(shares)}: each is at least a thousandth of their sum')
  places = sorted(((j + 0.5) / count, k) for k, count in enumerate(counts) for j in range(count))
  return Mixture(tuple(sizes), tuple(k for _, k in places))


def drawn_rows(drawn: jax.Array, sources: Mixture, key: Key) -> tuple[jax.Array, jax.Array]:
  """The rows of some draws: each source comes in an order of its own, shuffled anew for each of its epochs.

  Args:
    drawn: [num] int32, how many draws were before each.
    sources: of the rows.
    key: chooses the orders; not consumed.
  Returns:
    [num] int32 numbers of rows, and which source each is of.
  """
  cycle = np.array(sources.cycle, np.int32)
  at = drawn % len(cycle)
  source, rows, first = jnp.asarray(cycle)[at], jnp.zeros_like(drawn), 0
  for k, num_rows in enumerate(sources.sizes):
    is_own = (cycle == k).astype(np.int32)
    own = drawn // len(cycle) * int(is_own.sum()) + jnp.asarray(is_own.cumsum(dtype=np.int32) - is_own)[at]
    orders = jax.random.fold_in(key, k) if len(sources.sizes) > 1 else key
    rows = jnp.where(source == k, first + _in_epochs(own, num_rows, orders), rows)
    first += num_rows
  return rows, source


def _in_epochs(drawn: jax.Array, num_rows: int, key: Key) -> jax.Array:
  """The elements at places [num] of an endless order, in which each of `num_rows` comes once an epoch."""
  order = lambda epoch, place: shuffled(place, num_rows, jax.random.fold_in(key, epoch))
  return jax.vmap(order)(drawn // num_rows, drawn % num_rows)


def shuffled(position: jax.Array, num_rows: int, key: Key) -> jax.Array:
  """The element at each place of the order that a key chooses: a bijection of 0..num_rows-1.

  Args:
    position: any shape, int32 places in 0..num_rows-1.
    num_rows: N, in 1..2**31 - 1.
    key: chooses the order; not consumed, the same key is the same order.
  Returns:
    int32 elements, of the shape of `position`.
  Raises:
    ValueError: there are no rows, or too many to number.
  Source: Black & Rogaway, 2002, "Ciphers with arbitrary finite domains", methods 2 (cycle walking) and 3
    (Feistel), https://doi.org/10.1007/3-540-45760-7_9.
  """
  if not 1 <= num_rows < 2**31:
    raise ValueError(f'an order of num_rows={num_rows}; it needs 1 to {2**31 - 1}')
  num_bits = max((num_rows - 1).bit_length(), 2)
  round_keys = jax.random.bits(key, (_NUM_ROUNDS, 2), jnp.uint32)
  outside = lambda x: x >= jnp.uint32(num_rows)
  encipher = lambda x: _encipher(x, num_bits, round_keys)
  index = encipher(position.astype(jnp.uint32))
  # A bijection leads back to where it began, and it began inside: this ends, on average within two steps.
  walk = lambda x: jnp.where(outside(x), encipher(x), x)
  return jax.lax.while_loop(lambda x: jnp.any(outside(x)), walk, index).astype(jnp.int32)


def _encipher(x: jax.Array, num_bits: int, round_keys: jax.Array) -> jax.Array:
  """A bijection of 0..2**num_bits-1: each half of the bits in turn is masked with a hash of the other."""
  high_bits, low_bits = num_bits // 2, num_bits - num_bits // 2
  low_mask = jnp.uint32(2**low_bits - 1)
  high, low = x >> low_bits, x & low_mask
  for high_key, low_key in round_keys:
    high ^= _mix(low ^ high_key) >> (32 - high_bits)
    low ^= _mix(high ^ low_key) >> (32 - low_bits)
  return high << low_bits | low


def _mix(x: jax.Array) -> jax.Array:
  """A bijection of 32 bits in which every bit of the argument reaches every bit of the value.

  Source: the finaliser of MurmurHash3 (Austin Appleby, public domain),
    https://github.com/aappleby/smhasher/wiki/MurmurHash3.
  """
  x = (x ^ x >> 16) * jnp.uint32(0x85EBCA6B)
  x = (x ^ x >> 13) * jnp.uint32(0xC2B2AE35)
  return x ^ x >> 16
