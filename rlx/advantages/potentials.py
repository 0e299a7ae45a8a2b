"""Steps of a completion, and advantages from what a prefix is worth at the end of each.

Whoever looks at the ends of steps (a probe, a prover) has a number for each of them, [B, N + 1] with the one
before the first step. A step is credited with the difference that it makes. Steps are told by a separator
token; what stands behind the last separator is the answer, not a step, unless a function says otherwise.
"""

import chex
import jax
import jax.numpy as jnp


def step_numbers(tokens: jax.Array, mask: jax.Array, separator: int | jax.Array) -> jax.Array:
  """Which step each action is in, for `segments.steps`: a separator belongs to the step that it ends.

  Args:
    tokens: [B, T] int32.
    mask: [B, T] bool, True at actions.
    separator: the token that ends a step.
  Returns:
    [B, T] int32 from 0; -1 where `mask` is False. Actions behind the last separator have the number of steps.
  """
  ends = (tokens == separator) & mask
  return jnp.where(mask, jnp.cumsum(ends, axis=1) - ends, -1)


def step_counts(tokens: jax.Array, mask: jax.Array, separator: int | jax.Array) -> jax.Array:
  """[B] int32: how many steps end, which is the number of the answer behind them."""
  return jnp.sum((tokens == separator) & mask, axis=1)


def step_ends(tokens: jax.Array, mask: jax.Array, separator: int | jax.Array) -> jax.Array:
  """[B, T] bool: True at each separator and at the last action of a row, which ends the answer.

  >>> tokens = jnp.array([[5, 9, 5, 5, 9, 7]])
  >>> step_ends(tokens, jnp.arange(6)[None] > 0, 9).tolist()
  [[False, True, False, False, True, True]]
  """
  is_last = mask & (jnp.cumsum(mask, axis=1) == mask.sum(axis=1, keepdims=True))
  return is_last | ((tokens == separator) & mask)


def step_cuts(numbers: jax.Array, num: int) -> jax.Array:
  """How many actions precede each of the first steps: where a probe cuts.

  Args:
    numbers: [B, T] of `step_numbers`.
    num: N.
  Returns:
    [B, N + 1] int32: 0, then the actions up to the end of step 0, 1, .., N - 1; behind the last step, those
    of the whole row.
  """
  inside = (numbers[:, None] >= 0) & (numbers[:, None] < jnp.arange(num + 1)[None, :, None])
  return inside.sum(axis=-1)


def at_steps(x: jax.Array, numbers: jax.Array) -> jax.Array:
  """[B, T]: at each action the entry of its step in `x` [B, N], that of the last one in later steps."""
  found = jnp.take_along_axis(x, jnp.clip(numbers, 0, x.shape[1] - 1), axis=1)
  return jnp.where(numbers >= 0, found, 0)


def step_potential(correctness: jax.Array, confidence: jax.Array) -> jax.Array:
  """Φ = 1.5 Acc Conf + 0.5 Acc - Conf: 0 while nothing is known, 1 where right and sure, -1 where only sure.

  Args:
    correctness: [...] in 0..1, probability of the right answer.
    confidence: [...] in 0..1, exp(- entropy of the answers).
  Returns:
    [...] float32 in -1..1.
  Source: SPAE, https://arxiv.org/abs/2601.03823. The paper's rendering loses the decimals of the two
    coefficients; these are the ones with which it lies in -1..1 with the states that the paper names.
  """
  chex.assert_equal_shape([correctness, confidence])
  return 1.5 * correctness * confidence + 0.5 * correctness - confidence


def saturation_discount(potentials: jax.Array, *, threshold: float, alpha: float) -> jax.Array:
  """f = 1 - α (1 - exp(-C)), with C the number of earlier steps that ended above the threshold.

  Args:
    potentials: [B, N] at the end of each step.
    threshold: above it the answer counts as found.
    alpha: in 0..1, what a step loses at most.
  Returns:
    [B, N] float32, in 1 - α..1: the step that finds the answer loses nothing, the ones behind it do.
  Source: SPAE, https://arxiv.org/abs/2601.03823 (potential saturation penalty).
  """
  saturated = (potentials > threshold).astype(jnp.float32)
  earlier = jnp.cumsum(saturated, axis=1) - saturated
  return 1 - alpha * (1 - jnp.exp(-earlier))


def exponential_gain(differences: jax.Array, mask: jax.Array) -> jax.Array:
  """g = exp(d) - mean(exp(d)), with d the differences scaled to 0..1 over the batch.

  The exponential makes the leap to the answer stand out; steps that change nothing are below the mean.

  Args:
    differences: [B, T] of potentials, at each token those of its step.
    mask: [B, T] bool, True where the token is in a step.
  Returns:
    [B, T] float32 of mean 0 over the mask; 0 outside, and everywhere where no two differences differ.
  Source: SPAE, https://arxiv.org/abs/2601.03823 (potential difference shaping); that smallest, largest and
    mean are those of the batch's tokens is our reading.
  """
  low = jnp.min(differences, where=mask, initial=jnp.inf)
  spread = jnp.max(differences, where=mask, initial=-jnp.inf) - low
  flat = ~(spread > 0)
  gains = jnp.exp(jnp.where(flat, 0, (differences - low) / jnp.where(flat, 1, spread)))
  mean = jnp.sum(gains, where=mask) / jnp.maximum(mask.sum(), 1)
  return jnp.where(mask, gains - mean, 0)
