"""Shuffled orders that are computed, not stored: where an element stands is a function of a key.

A run that is resumed needs only the key and a count to go on with the same order, and an order over millions
of rows takes no memory. The order is a format-preserving cipher: a Feistel network permutes the next power of
two of numbers, and a number outside 0..N-1 is enciphered again until it falls inside.
"""

import jax
import jax.numpy as jnp

from rlx.types import Key

_NUM_ROUNDS = 8


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
