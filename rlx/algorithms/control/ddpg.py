"""DDPG: a deterministic policy that climbs its critic, off policy.

    y = r + γ (1 - terminated) min_i Q̄_i(s', π̄(s')),   L_Q = Σ_i mean (Q_i(s, a) - y)²
    L_π = -mean Q_1(s, π(s))

With one critic, as in the paper, the minimum is that critic. Exploration is Gaussian noise on the actions
(the network `deterministic`) in place of the paper's Ornstein-Uhlenbeck process, as has become the custom.
`deterministic_actor_critic` is what TD3 shares.

Source: Lillicrap et al., 2015, https://arxiv.org/abs/1509.02971, eqs. 4-6.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses.actor_critic import bootstrapped, ensemble_error
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout, Track

NextActions = Callable[[Models, Batch, Key], jax.Array]


def ddpg(
    rollout: Rollout, policy: Policy, critic: Network, *, discount: float, target_rate: float
) -> Algorithm:
  """Deep deterministic policy gradient; trains `policy` and `critic`, which two lagging models follow.

  Args:
    rollout: yields transitions.
    policy: `mode` is differentiable in the parameters.
    critic: an ensemble of Q(s, a), of one.
    discount: γ per step.
    target_rate: share that `slow['target']` and `slow['target_policy']` take on after each update.
  """
  next_actions = lambda models, batch, key: policy.mode(models['target_policy'], batch['next_observations'])
  track = tracking.polyak({'target': 'critic', 'target_policy': 'policy'}, rate=target_rate)
  return deterministic_actor_critic(rollout, policy, critic, next_actions, track, discount=discount)


def deterministic_actor_critic(
    rollout: Rollout, policy: Policy, critic: Network, next_actions: NextActions, track: Track, *,
    discount: float,
) -> Algorithm:
  """The losses above, for any actions that the target is made with.

  Args:
    rollout: yields transitions.
    policy: `mode` is differentiable in the parameters.
    critic: an ensemble of Q(s, a).
    next_actions: `(models, batch, key) -> a'` at the next observations.
    track: moves `slow['target']`, and whatever else lags.
    discount: γ per step.
  """

  def loss(models: Models, batch: Batch, key: Key):
    following = next_actions(models, batch, key)
    bootstrap = critic.apply(models['target'], batch['next_observations'], following).min(axis=0)
    values = critic.apply(models['critic'], batch['observations'], batch['actions'])
    critic_loss = ensemble_error(values, bootstrapped(batch, bootstrap, discount=discount))

    actions = policy.mode(models['policy'], batch['observations'])
    held = jax.lax.stop_gradient(models['critic'])
    policy_loss = -critic.apply(held, batch['observations'], actions)[0].mean()
    metrics = {
        'loss/critic': critic_loss,
        'loss/policy': policy_loss,
        'critic/mean': values.mean(),
        'policy/magnitude': jnp.abs(actions).mean(),
    }
    return critic_loss + policy_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=track)
