"""A sum tree: numbers from which places are drawn in proportion, in a logarithm of how many there are.

The tree is one array: entry 1 is the sum of all, entries 2 i and 2 i + 1 are the two parts of entry i, and
the numbers themselves are the second half. Writing B numbers renews the sums above them, level by level, from
their two parts, so that no rounding adds up and places that are written twice do no harm. Drawing goes down
from the top.

Source: Schaul et al., 2015, https://arxiv.org/abs/1511.05952, appendix B.2.1.
"""

import jax
import jax.numpy as jnp

from rlx.types import Key


def empty(capacity: int) -> jax.Array:
  """A tree of zeros for `capacity` numbers: [2 L] float32, L the next power of two."""
  leaves = 1 << max(capacity - 1, 1).bit_length()
  return jnp.zeros(2 * leaves)


def put(tree: jax.Array, places: jax.Array, numbers: jax.Array) -> jax.Array:
  """The tree with `numbers` [B] at `places` [B]; of those for one place, any one stays."""
  nodes = places + tree.shape[0] // 2
  tree = tree.at[nodes].set(numbers)
  for _ in range(_depth(tree)):
    nodes = nodes // 2
    tree = tree.at[nodes].set(tree[2 * nodes] + tree[2 * nodes + 1])
  return tree


def at(tree: jax.Array, places: jax.Array) -> jax.Array:
  """The numbers [B] at `places` [B]."""
  return tree[places + tree.shape[0] // 2]


def total(tree: jax.Array) -> jax.Array:
  """[] the sum of all numbers."""
  return tree[1]


def draw(tree: jax.Array, key: Key, num: int) -> jax.Array:
  """`num` places, each with a probability in proportion to its number; stratified.

  The sum is cut into `num` equal pieces and one point is drawn in each (section 3.3 of the paper), so that
  every row of a batch has the right distribution on average, and the batch less variance.
  """
  points = (jnp.arange(num) + jax.random.uniform(key, (num,))) / num * total(tree)
  nodes = jnp.ones(num, jnp.int32)
  for _ in range(_depth(tree)):
    left, right = tree[2 * nodes], tree[2 * nodes + 1]
    # What is rounded past the end of a part is never led to one that holds nothing.
    goes_right = ((points >= left) & (right > 0)) | (left <= 0)
    points = jnp.where(goes_right, points - left, points)
    nodes = 2 * nodes + goes_right
  return nodes - tree.shape[0] // 2


def _depth(tree: jax.Array) -> int:
  return tree.shape[0].bit_length() - 2
