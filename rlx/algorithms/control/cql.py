"""Conservative Q-learning: SAC whose critic is pushed down wherever the data do not hold it up.

    L_Q = L_Q(SAC) + c · Σ_i mean [ log ∫ exp Q_i(s, a) da - Q_i(s, a_data) ]

The integral is estimated with M uniform actions and M of the policy (`losses.actor_critic.soft_maximum`). The
second term holds up what was done, so that the gap, not the height, of the critic is regularised. Changes of
SAC: one term of the critic's loss. The soft bootstrap of SAC is kept (the authors' code leaves the entropy
out of it), and the weight is fixed (their Lagrangian variant is left out).

Source: Kumar et al., 2020, https://arxiv.org/abs/2006.04779, eq. 4 (CQL(H)) and appendix F.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.losses.actor_critic import as_they_are, soft_maximum
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models


def cql(
    parent: Algorithm, policy: Policy, critic: Network, *, conservatism: float, num_actions: int,
    floor: Callable[[jax.Array, Batch], jax.Array] = as_they_are,
) -> Algorithm:
  """Conservative Q-learning; trains what its parent trains.

  Args:
    parent: `sac`, on transitions of a data set, of environments, or of both.
    policy: of the parent, as is the next.
    critic: an ensemble of Q(s, a).
    conservatism: c, weight of the added term (the authors': 5 for control from states).
    num_actions: M, of each kind for each state (the authors': 10).
    floor: `(values [N, M, B] of the policy's actions, batch) -> values`, for variants.
  """

  def loss(models: Models, batch: Batch, key: Key):
    sac_key, gap_key = jax.random.split(key)
    parent_loss, metrics = parent.loss(models, batch, sac_key)
    highest = soft_maximum(policy, critic, models, batch, gap_key, num_actions=num_actions, floor=floor)
    held_up = critic.apply(models['critic'], batch['observations'], batch['actions'])
    gap = jnp.mean(highest - held_up, axis=1).sum()
    metrics = {**metrics, 'loss/conservative': gap, 'critic/data': held_up.min(axis=0).mean()}
    return parent_loss + conservatism * gap, metrics

  return dataclasses.replace(parent, loss=loss)
