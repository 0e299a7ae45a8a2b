"""Losses of state values, element-wise; `reductions.py` says how entries are averaged."""

import chex
import jax
import jax.numpy as jnp


def squared_error(values: jax.Array, returns: jax.Array) -> jax.Array:
  """(V - R)² / 2, whose gradient is V - R.

  Args:
    values: [...] of the trained critic.
    returns: [...] targets, taken as constants.
  Returns:
    [...] float32.
  """
  chex.assert_equal_shape([values, returns])
  return jnp.square(values.astype(jnp.float32) - jax.lax.stop_gradient(returns)) / 2


def clipped_squared_error(
    values: jax.Array, old_values: jax.Array, returns: jax.Array, *, clip: float
) -> jax.Array:
  """max((V - R)², (clip(V, V_old ± clip) - R)²) / 2: no gradient for moving further than `clip` towards R.

  The bound is in the units of the values, so it depends on the scale of the rewards. Moving *away* from the
  target is never clipped.

  Args:
    values: [...] of the trained critic.
    old_values: [...] of the critic that the returns were computed with, constants.
    returns: [...] targets, taken as constants.
    clip: how far from `old_values` a value may move, in the units of the values.
  Returns:
    [...] float32.
  Source: Engstrom et al., 2020, Implementation Matters, https://arxiv.org/abs/2005.12729, section 3; as in
    OpenAI baselines' PPO2.
  """
  chex.assert_equal_shape([values, old_values, returns])
  values = values.astype(jnp.float32)
  old_values = jax.lax.stop_gradient(old_values)
  held = jnp.clip(values, old_values - clip, old_values + clip)
  return jnp.maximum(squared_error(values, returns), squared_error(held, returns))
