"""TD3: DDPG with three remedies for values that are too high.

    ã = clip(π̄(s') + clip(ε, ±c), ±1),   ε ~ N(0, σ²)                  (the policy of the target is smoothed)
    y = r + γ (1 - terminated) min(Q̄_1(s', ã), Q̄_2(s', ã))            (twin critics)

and the policy and all targets move at every dth update of the critics only: the policy by its optimizer
(`optimizers.adam_per_model`, a period of d), the targets by `target_period`. The losses are DDPG's.

Source: Fujimoto et al., 2018, https://arxiv.org/abs/1802.09477, algorithm 1.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.algorithms.control.ddpg import deterministic_actor_critic
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout, Track


def td3(
    rollout: Rollout, policy: Policy, critic: Network, *, discount: float, smoothing_noise: float,
    noise_clip: float, target_rate: float, target_period: int,
) -> Algorithm:
  """Twin delayed DDPG; trains `policy` and `critic`, which two lagging models follow.

  Args:
    rollout: yields transitions.
    policy: `mode` is differentiable in the parameters.
    critic: an ensemble of Q(s, a), of two.
    discount: γ per step.
    smoothing_noise: σ, in units of the actions, which are in [-1, 1] (the authors': 0.2).
    noise_clip: c (the authors': 0.5).
    target_rate: share that `slow['target']` and `slow['target_policy']` take on when they move.
    target_period: d, updates between two moves of the targets (the authors': 2).
  """

  def next_actions(models: Models, batch: Batch, key: Key) -> jax.Array:
    actions = policy.mode(models['target_policy'], batch['next_observations'])
    noise = jnp.clip(smoothing_noise * jax.random.normal(key, actions.shape), -noise_clip, noise_clip)
    return jnp.clip(actions + noise, -1, 1)

  follow = tracking.polyak({'target': 'critic', 'target_policy': 'policy'}, rate=target_rate)
  track = at_every(follow, target_period)
  return deterministic_actor_critic(rollout, policy, critic, next_actions, track, discount=discount)


def at_every(track: Track, period: int) -> Track:
  """`track` after every `period`th update; the lagging models stay as they are after the others."""

  def tracked(slow: Models, params: Models, update: jax.Array) -> Models:
    due = (update + 1) % period == 0
    return jax.tree.map(lambda new, old: jnp.where(due, new, old), track(slow, params, update), slow)

  return tracked
