"""How much each of several objectives weighs while they are trained: weights [K] from what was seen.

Fixed weights reach only the convex part of what can be reached, and go on paying for what is won already.
Three signals move them: how an objective has been converging (`lagging`), the volume that is dominated
(`hypervolume`; `contribution` of a point, `volume_slopes` for each objective), and which objective's gradient
helps the others (`influence`). The weights are for `advantages/objectives.py`, or multiply rows of a task.
"""

import functools

import chex
import jax
import jax.numpy as jnp


def init_window(num_objectives: int, *, size: int) -> jax.Array:
  """[size, K] float32: the memory of `lagging` before the first batch; NaN marks what was not seen."""
  return jnp.full((size, num_objectives), jnp.nan, jnp.float32)


def update_window(window: jax.Array, losses: jax.Array) -> jax.Array:
  """The window with the newest losses [K] behind the others."""
  return jnp.concatenate([window[1:], losses.astype(jnp.float32)[None]])


def lagging(window: jax.Array, *, temperature: float, eps: float = 1e-6) -> jax.Array:
  """Weights that move off objectives that are won, onto those that stall or swing.

      w = K softmax( l̄ (ρ + ν) / τ ),    ρ = mean of the newer half / mean of the older,    ν = std / mean

  l̄ is the mean loss over the window: what is near 0 has nothing left to give, whatever its ratios.

  Args:
    window: [W, K] losses, at least 0, oldest first, NaN where none was seen.
    temperature: τ above 0; a high one keeps the weights equal.
    eps: keeps ratios finite.
  Returns:
    [K] float32 weights whose mean is 1; all 1 until the window is full.
  Raises:
    ValueError: `temperature` is not above 0, or there are fewer than two steps.
  Source: RECAP, https://arxiv.org/abs/2510.21978, which has signals of convergence and instability over a
    short horizon; the formula is our reading of its abstract.
  """
  chex.assert_rank(window, 2)
  size, num = window.shape
  if temperature <= 0 or size < 2:
    raise ValueError(f'temperature={temperature} of a window of {size}: need above 0, and at least 2 steps')
  old, new = window[: size // 2].mean(axis=0), window[size // 2 :].mean(axis=0)
  mean = window.mean(axis=0)
  signal = mean * (new / (old + eps) + window.std(axis=0) / (mean + eps))
  known = jnp.all(jnp.isfinite(window))
  weights = num * jax.nn.softmax(jnp.where(known, signal, 0) / temperature)
  return jnp.where(known, weights, 1)


@functools.partial(jax.jit, inline=True)
def hypervolume(points: jax.Array, reference: jax.Array, mask: jax.Array) -> jax.Array:
  """The volume that is dominated by some of the points and dominates the reference, exactly.

  The coordinates of the points cut space into a grid, each of whose N^K cells is dominated or not: for a few
  objectives and tens of points.

  Args:
    points: [N, K] what was reached, more is better.
    reference: [K] what is worth nothing.
    mask: [N] bool, True where there is a point.
  Returns:
    [] float32.
  Source: Zitzler and Thiele, 1999, https://doi.org/10.1109/4235.797969.
  """
  chex.assert_rank([points, reference, mask], [2, 1, 1])
  num_objectives = points.shape[1]
  points = jnp.where(mask[:, None], jnp.maximum(points, reference[None]), reference[None])
  edges = jnp.sort(jnp.concatenate([reference[None], points]), axis=0)  # [N + 1, K]
  widths = jnp.diff(edges, axis=0)  # [N, K]
  # A cell is dominated by a point that is at least its upper corner in every objective.
  inside = points[:, None, :] >= edges[None, 1:, :]  # [point, cell, K]
  letters = 'abcdefgh'[:num_objectives]
  per_axis = [inside[..., k].astype(jnp.float32) for k in range(num_objectives)]
  cells = jnp.einsum(','.join(f'z{x}' for x in letters) + f'->{letters}', *per_axis) > 0
  volumes = jnp.einsum(','.join(letters) + f'->{letters}', *(widths[:, k] for k in range(num_objectives)))
  return jnp.sum(jnp.where(cells, volumes, 0))


def contribution(point: jax.Array, points: jax.Array, reference: jax.Array, mask: jax.Array) -> jax.Array:
  """[] float32: the volume that a new point [K] adds to those that were reached; 0 where it is dominated.

  Rewards of a step that moved the front are multiplied by 1 + c times this (hypervolume-guided weights).

  Args:
    point: [K].
    points: [N, K] that were reached.
    reference: [K] what is worth nothing.
    mask: [N] bool, True where there is a point.
  Source: dynamic reward weighting, https://arxiv.org/abs/2509.11452; the multiplication is our reading.
  """
  more = jnp.concatenate([points, point[None]])
  there = jnp.concatenate([mask, jnp.ones(1, bool)])
  return hypervolume(more, reference, there) - hypervolume(points, reference, mask)


def volume_slopes(
    point: jax.Array, preferences: jax.Array, reference: jax.Array, *, strength: float, floor: float = 1e-3
) -> jax.Array:
  """Weights by how fast the volume below a point grows with each objective.

      w_k = K p_k (x_k - z_k)^-s / Σ_j p_j (x_j - z_j)^-s

  With p = 1 and s = 1 this is the gradient of Π_k (x_k - z_k), of length K: what has least weighs most, so
  that a compromise on a front that bends inwards is a maximum, where no fixed weights have one.

  Args:
    point: [K] what is reached now.
    preferences: [K] p, above 0; another balance of what is reached.
    reference: [K] z, what is worth nothing.
    strength: s, at least 0, which leaves the preferences as they are.
    floor: the least x_k - z_k.
  Returns:
    [K] float32 weights whose mean is 1; the preferences until there is a point (NaN).
  Source: dynamic reward weighting, https://arxiv.org/abs/2509.11452, which multiplies rewards where the
    hypervolume grows; that each objective weighs what it adds to it is our reading.
  """
  chex.assert_equal_shape([point, preferences, reference])
  above = jnp.maximum(point - reference, floor)
  raw = preferences * jnp.where(jnp.isnan(above), 1, above) ** -strength
  return (point.shape[0] * raw / raw.sum()).astype(jnp.float32)


def influence(weights: jax.Array, gradients: jax.Array, *, rate: float) -> jax.Array:
  """Weights that grow with how much an objective's gradient helps all of them (mirror ascent).

      w_k ∝ w_k exp( η g_k · Σ_j g_j ),    Σ_k w_k = K

  Args:
    weights: [K] before, above 0.
    gradients: [K, D] of the objectives, of one scale; of the last layer is enough.
    rate: η.
  Returns:
    [K] float32 weights whose mean is 1.
  Source: dynamic reward weighting, https://arxiv.org/abs/2509.11452, gradient-based weights; our reading.
  """
  chex.assert_rank([weights, gradients], [1, 2])
  helps = gradients.astype(jnp.float32) @ gradients.astype(jnp.float32).sum(axis=0)
  return weights.shape[0] * jax.nn.softmax(jnp.log(weights) + rate * helps)
