"""Mixtures of experts: each token goes through the few feed-forward parts that a router likes best.

The rows of all tokens, once for each expert that they take, are sorted by expert; then an expert is one
matrix product over its own stretch of rows. There is no capacity: nothing is dropped, and a token's result
does not depend on its neighbours. Rows move by permutations, whose gradients are gathers and not scatters.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from rlx import sharding


def mixture(
    rows: jax.Array,
    logits: jax.Array,
    feed_forward: Callable[[jax.Array, jax.Array, Sequence[jax.Array]], jax.Array],
    matrices: Sequence[jax.Array],
    *,
    hidden_axes: Sequence[int],
    experts_per_token: int,
    normalise: bool,
) -> jax.Array:
  """Σ_e p_e f_e(x) over the `experts_per_token` experts of the largest p = softmax(logits).

  Args:
    rows: [N, D], one for each token.
    logits: [N, E] float32, of the router.
    feed_forward: (rows sorted by expert, [E] number of rows of each, matrices) -> what each row's expert
      makes of it, which is a sum over hidden units.
    matrices: of all experts.
    hidden_axes: which axis of each matrix are hidden units. On a mesh that splits them, what devices have for
      their own units is added up behind the sum over experts, and not for each expert.
    experts_per_token: k.
    normalise: divide p by its sum over the experts taken.
  Returns:
    [N, D].
  Source: Yang et al., 2025, https://arxiv.org/abs/2505.09388, section 2; the softmax before the choice as in
    the released models.
  """
  num_rows, num_experts = logits.shape
  shares = jax.nn.softmax(logits, axis=-1)
  chosen = jax.lax.top_k(jax.lax.stop_gradient(shares), experts_per_token)[1]
  is_chosen = chosen[:, :, None] == jnp.arange(num_experts)[None, None]  # [N, k, E]
  weights = jnp.sum(jnp.where(is_chosen, shares[:, None], 0), axis=-1)  # [N, k]
  if normalise:
    weights /= jnp.sum(weights, axis=-1, keepdims=True)
  order = jnp.argsort(chosen.reshape(-1))
  back = jnp.argsort(order)
  sizes = jnp.sum(is_chosen, axis=(0, 1), dtype=jnp.int32)

  def mixed(same, matrices):
    rows, weights, order, back, sizes = same
    y = feed_forward(permute(jnp.repeat(rows, experts_per_token, axis=0), order, back), sizes, matrices)
    y = permute(y, back, order).reshape(num_rows, experts_per_token, -1)
    return jnp.sum(y * weights.astype(y.dtype)[:, :, None], axis=1)

  return sharding.sum_of_parts(mixed, (rows, weights, order, back, sizes), matrices, axes=hidden_axes)


@jax.custom_vjp
def permute(rows: jax.Array, order: jax.Array, back: jax.Array) -> jax.Array:
  """rows[order]; its gradient is a gather by the inverse, `back`, where that of indexing is a scatter."""
  del back
  return rows[order]


permute.defvjp(
    lambda rows, order, back: (rows[order], back), lambda back, cotangent: (cotangent[back], None, None)
)


def _fold(product):
  """`vmap` of a product by groups is one such product with more groups.

  The rule of `ragged_dot` itself wants every argument batched.
  """
  product = jax.custom_batching.custom_vmap(product)

  @product.def_vmap
  def batched(size, is_batched, *arguments):
    spread = lambda x, along: x if along else jnp.broadcast_to(x[None], (size, *x.shape))
    fold = lambda x: x.reshape(-1, *x.shape[2:])
    y = product(*(fold(spread(x, along)) for x, along in zip(arguments, is_batched, strict=True)))
    return y.reshape(size, -1, *y.shape[1:]), True

  return product


@_fold
def _times(rows, matrices, sizes):
  return jax.lax.ragged_dot(rows, matrices, sizes)


@_fold
def _outer(rows, cotangents, sizes):
  """[E, D, F]: the sum of outer products over the rows of each group."""
  dimensions = jax.lax.RaggedDotDimensionNumbers(
      dot_dimension_numbers=(((0,), (0,)), ((), ())), lhs_ragged_dimensions=[0], rhs_group_dimensions=[]
  )
  return jax.lax.ragged_dot_general(rows, cotangents, sizes, dimensions)


@jax.custom_vjp
def grouped_matmul(rows: jax.Array, matrices: jax.Array, sizes: jax.Array) -> jax.Array:
  """Each row times the matrix of its group.

  Args:
    rows: [N, D], sorted by group.
    matrices: [E, D, F].
    sizes: [E] int32, rows of each group.
  Returns:
    [N, F].
  """
  return _times(rows, matrices, sizes)


grouped_matmul.defvjp(
    lambda rows, matrices, sizes: (_times(rows, matrices, sizes), (rows, matrices, sizes)),
    lambda saved, cotangents: (
        _times(cotangents, jnp.swapaxes(saved[1], 1, 2), saved[2]),
        _outer(saved[0], cotangents, saved[2]),
        None,
    ),
)
