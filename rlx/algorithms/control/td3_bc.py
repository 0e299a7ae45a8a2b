"""TD3+BC: TD3 that is also paid for doing what the data do.

    L_π = mean [ -λ Q_1(s, π(s)) + ‖π(s) - a‖² ],   λ = α / mean |Q_1(s, π(s))|

The scale λ makes the two terms comparable whatever the units of the rewards. Changes of TD3: the policy's
loss. λ is of the whole batch and of the parameters before its updates, so that the loss is a mean over rows;
with one update a batch, as the authors have it, that is their λ. The authors also normalise the observations
over the data set, which is left out.

Source: Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.02860, eqs. 3 and 5; the square is a mean over the
numbers of an action, as in their code.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models


def td3_bc(parent: Algorithm, policy: Policy, critic: Network, *, greed: float) -> Algorithm:
  """TD3 with a term of behaviour cloning; trains what its parent trains.

  Args:
    parent: `td3`, on the rows of a data set.
    policy: of the parent, as is the next.
    critic: an ensemble of Q(s, a), of two.
    greed: α (the authors': 2.5); 0 is behaviour cloning.
  """
  held = jax.lax.stop_gradient

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    actions = policy.mode(models['policy'], batch['observations'])
    sizes = jnp.abs(critic.apply(models['critic'], batch['observations'], actions)[0])
    return {**batch, 'greed': jnp.full(sizes.shape, greed / jnp.maximum(sizes.mean(), 1e-6))}

  def loss(models: Models, batch: Batch, key: Key):
    # With the policy held, what is left of TD3's loss is that of the critics.
    total, metrics = parent.loss({**models, 'policy': held(models['policy'])}, batch, key)
    actions = policy.mode(models['policy'], batch['observations'])
    values = critic.apply(held(models['critic']), batch['observations'], actions)[0]
    distance = jnp.square(actions - batch['actions']).mean()
    policy_loss = distance - (batch['greed'] * values).mean()
    metrics = {**metrics, 'loss/policy': policy_loss, 'policy/distance': distance}
    return total + policy_loss, metrics

  return dataclasses.replace(parent, advantage=advantage, loss=loss)
