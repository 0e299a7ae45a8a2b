"""EDAC: SAC with many critics, which are kept from leaning the same way.

    L_Q = L_Q(SAC) + η · mean 1/(N - 1) Σ_(i ≠ j) ⟨g_i, g_j⟩,   g_i = ∇_a Q_i(s, a) / ‖∇_a Q_i(s, a)‖

With η = 0 it is SAC-N: the minimum over N critics is a lower confidence bound, about 1.5 standard deviations
below the mean for N = 10, and is pessimistic wherever the data do not make the critics agree. Critics whose
slopes differ disagree sooner, so that fewer of them are enough.

Source: An et al., 2021, https://arxiv.org/abs/2110.01548, eqs. 4 and 8.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.models.networks import Network
from rlx.types import Algorithm, Batch, Key, Models

_EPS = 1e-6  # of a squared slope


def edac(parent: Algorithm, critic: Network, *, diversity: float) -> Algorithm:
  """SAC-N with diverse critics; trains what its parent trains.

  Args:
    parent: `sac`.
    critic: of the parent, an ensemble of N critics, at least 2.
    diversity: η (the authors': 1 with N = 10 for locomotion); 0 is SAC-N.
  """

  def loss(models: Models, batch: Batch, key: Key):
    total, metrics = parent.loss(models, batch, key)
    slopes = action_slopes(critic, models['critic'], batch['observations'], batch['actions'])
    alike = alignment(slopes).mean()
    return total + diversity * alike, {**metrics, 'critic/alignment': alike}

  return dataclasses.replace(parent, loss=loss)


def action_slopes(critic: Network, params, observations: jax.Array, actions: jax.Array) -> jax.Array:
  """[N, B, A] ∇_a Q_i(s, a) of every member, one of which is one entry of the leading axis of each leaf."""

  def slope(member):
    alone = jax.tree.map(lambda x: x[None], member)
    return jax.grad(lambda a: critic.apply(alone, observations, a).sum())(actions)

  return jax.vmap(slope)(params)


def alignment(slopes: jax.Array) -> jax.Array:
  """1/(N - 1) Σ_(i ≠ j) cos(g_i, g_j), [B] float32 in [-N/(N - 1), N]; for slopes [N, B, A]."""
  unit = slopes * jax.lax.rsqrt(jnp.sum(jnp.square(slopes), axis=-1, keepdims=True) + _EPS)
  # The sum over all pairs is the square of the sum.
  pairs = jnp.sum(jnp.square(unit.sum(axis=0)), axis=-1) - jnp.sum(jnp.square(unit), axis=(0, -1))
  return pairs / (slopes.shape[0] - 1)
