"""Advantages of stretches of time [B, T] by a value network, and the stretches as single transitions."""

from typing import Any

import jax

from rlx.advantages import temporal
from rlx.models.networks import Network
from rlx.types import Batch


def estimated(
    value: Network, params: Any, batch: Batch, *, discount: float, lambda_: float
) -> tuple[jax.Array, jax.Array]:
  """`(values, advantages)` [B, T]: V(s), and GAE of the rewards by it.

  What was cut off by a time limit is bootstrapped from the observation that it really ended with.

  Args:
    value: V(s).
    params: of the value.
    batch: `observations, rewards, next_observations, terminated, truncated` [B, T, ...].
    discount: γ per step.
    lambda_: of GAE; 1 is Monte Carlo.
  """
  values = value.apply(params, batch['observations'])
  next_values = value.apply(params, batch['next_observations'])
  return values, temporal.gae_episodes(
      batch['rewards'], values, next_values, batch['terminated'], batch['truncated'], discount=discount,
      lambda_=lambda_,
  )


def normalised(advantages: jax.Array, *, eps: float = 1e-8) -> jax.Array:
  """Advantages of mean 0 and standard deviation 1, unbiased (n - 1), over the whole batch."""
  return (advantages - advantages.mean()) / (advantages.std(ddof=1) + eps)


def transitions(batch: Batch) -> Batch:
  """A batch of stretches [B, T, ...] as one of their B T transitions."""
  return jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), batch)
