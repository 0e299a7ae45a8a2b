"""Losses of state values, element-wise; `reductions.py` says how entries are averaged."""

import chex
import jax
import jax.numpy as jnp

from rlx.errors import at_least, between


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
  at_least(0, clip=clip)
  held = jnp.clip(values, old_values - clip, old_values + clip)
  return jnp.maximum(squared_error(values, returns), squared_error(held, returns))


def expectile_error(errors: jax.Array, *, expectile: float) -> jax.Array:
  """|τ - 1(u < 0)| u²: with τ above 1/2 what is too low is worse than what is too high.

  The value that minimises its mean over the actions of a data set is their mean at τ = 1/2, and goes to the
  best of them as τ goes to 1.

  Args:
    errors: [...] u, target minus value.
    expectile: τ, in (0, 1).
  Returns:
    [...] float32.
  Source: Kostrikov et al., 2021, https://arxiv.org/abs/2110.06169, eq. 3.
  """
  between(0, 1, expectile=expectile)
  errors = errors.astype(jnp.float32)
  return jnp.where(errors < 0, 1 - expectile, expectile) * jnp.square(errors)


def gumbel_error(errors: jax.Array, *, scale: float, exponent_max: float) -> jax.Array:
  """e^z - z - 1 with z = min(u / β, z_max): the value that minimises its mean is β log mean e^(x / β).

  So it is a soft maximum of the targets, which needs no sample but those of the data. The exponential is of
  the *largest* error: without a bound on z one outlier is infinite, and above the bound there is no slope.

  Args:
    errors: [...] u, target minus value.
    scale: β, in the units of the values; towards 0 it is the maximum.
    exponent_max: z_max (the authors': 7); infinity for the plain formula.
  Returns:
    [...] float32.
  Source: Garg et al., 2023, https://arxiv.org/abs/2301.02328, eq. 8; z_max is from their appendix.
  """
  z = jnp.minimum(errors.astype(jnp.float32) / scale, exponent_max)
  return jnp.exp(z) - z - 1


def lower_confidence_bound(values: jax.Array, *, pessimism: float) -> jax.Array:
  """mean - c · std over the members of an ensemble: what they do not agree on counts for less.

  For N Gaussian members the expected minimum lies about c std below the mean, with c growing with N.

  Args:
    values: [N, ...] of each member.
    pessimism: c, at least 0; 0 is the mean, and of two members 1 is the minimum.
  Returns:
    [...] float32.
  Source: Ghasemipour et al., 2022, https://arxiv.org/abs/2205.13703, eq. 1; the link to the minimum is
    An et al., 2021, https://arxiv.org/abs/2110.01548, eq. 4.
  """
  values = values.astype(jnp.float32)
  spread = jnp.sqrt(jnp.maximum(jnp.var(values, axis=0), 1e-12))  # its slope at 0 is finite
  return values.mean(axis=0) - pessimism * spread


def exponential_weights(advantages: jax.Array, *, sharpness: float, weight_max: float) -> jax.Array:
  """min(exp(β A), w): how much an action of the data is imitated; it has no gradient.

  Args:
    advantages: [...] Q - V of the action.
    sharpness: β, one over the units of the advantages; 0 imitates everything alike.
    weight_max: w, above 0.
  Returns:
    [...] float32.
  Source: Peng et al., 2019, https://arxiv.org/abs/1910.00177, eq. 14 (advantage-weighted regression).
  """
  exponents = jnp.minimum(sharpness * advantages.astype(jnp.float32), jnp.log(weight_max))
  return jax.lax.stop_gradient(jnp.exp(exponents))


def lowest(values: jax.Array, axis: int) -> jax.Array:
  """The smallest along an axis, with a gradient for one entry that has it.

  To be used where it is differentiated: the gradient of `jnp.min` divides by how many entries equal the
  result, and where the compiler computes them a second time and rounds otherwise none may: 0 / 0.

  Args:
    values: of any shape.
    axis: which is left out of the result.
  """
  return jnp.take_along_axis(values, jnp.argmin(values, axis, keepdims=True), axis).squeeze(axis)


def highest(values: jax.Array, axis: int) -> jax.Array:
  """The largest along an axis, as `lowest`."""
  return -lowest(-values, axis)
