"""SAW: a flat policy for far goals that is taught by its own kind of policy for near ones.

    L_V   = mean |τ - 1(ū < 0)| u²,   u = r + γ (1 - [s = g]) V̄(s', g) - V(s, g),  ū the same with V̄ for V
    L_sub = -mean e^{α A(s, a, w)} log π_sub(a | s, w),   A(s, a, w) = V(s', w) - V(s, w)
    L_π   =  mean -e^{α A(s, a, g)} log π(a | s, g) + e^{β A(s, w, g)} KL(π(· | s, g) || π_sub(· | s, w))
             A(s, w, g) = V(w, g) - V(s, g)

What one action changes about a far goal drowns in the error of V; what a dozen of them do does not. So a
waypoint w is taken from the row's own future, weighted by what it is worth on the way to g, and the policy
does for g what the subpolicy does for w. Nothing generates subgoals, and what is played is π alone. Of the
parent `gciql` it changes the policy's loss, and has action-free values.

Source: Zhou & Kao, 2025, https://arxiv.org/abs/2505.14975; values and the cap on weights as in the authors'
code (with one V in place of two). The KL is a mean over samples of π_sub of its log-ratio to π, that is
KL(π_sub || π), which is the direction of their code where the standard deviation is not constant, up to a
constant of the gradient: policies here have log-probabilities and no closed form.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses.actor_critic import bootstrapped
from rlx.losses.value import exponential_weights
from rlx.models.networks import Network, Policy
from rlx.rollout.control.hindsight import joined
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def saw(
    rollout: Rollout, policy: Policy, subpolicy: Policy, value: Network, *, discount: float,
    target_rate: float, expectile: float, sharpness: float, waypoint_sharpness: float, weight_max: float,
) -> Algorithm:
  """Subgoal advantage-weighted bootstrapping; trains `policy`, `subpolicy`, `value`, which `target` follows.

  Args:
    rollout: yields the rows of `hindsight`.
    policy: π, for a state and a goal.
    subpolicy: π_sub, for a state and a waypoint.
    value: V(s, g).
    discount: γ per step.
    target_rate: share of the value that the target takes on after each update.
    expectile: τ (the authors': 0.7).
    sharpness: α, one over the units of returns (theirs: 3).
    waypoint_sharpness: β (theirs: 3); far below 0 there is no teacher, and this is advantage-weighted
      regression.
    weight_max: the largest weight (theirs: 100).
  """
  held = jax.lax.stop_gradient

  def worth(models: Models, states: jax.Array, goals: jax.Array) -> jax.Array:
    return value.apply(held(models['value']), joined(states, goals))

  def gained(models: Models, before: jax.Array, after: jax.Array, goals: jax.Array, beta: float) -> jax.Array:
    """[B] the weight of what led from one state to another."""
    advantages = worth(models, after, goals) - worth(models, before, goals)
    return exponential_weights(advantages, sharpness=beta, weight_max=weight_max)

  def loss(models: Models, batch: Batch, key: Key):
    states, next_states, actions = batch['states'], batch['next_states'], batch['actions']
    value_loss = action_free_error(value, models, batch, discount=discount, expectile=expectile)

    near, far = joined(states, batch['waypoint_goals']), joined(states, batch['policy_goals'])
    weights = gained(models, states, next_states, batch['waypoint_goals'], sharpness)
    sub_loss = -jnp.mean(weights * subpolicy.score(models['subpolicy'], near, actions)[0])

    weights = gained(models, states, next_states, batch['policy_goals'], sharpness)
    imitation = -jnp.mean(weights * policy.score(models['policy'], far, actions)[0])
    taught, taught_logprobs = held(subpolicy.sample(models['subpolicy'], near, key))
    divergence = taught_logprobs - policy.score(models['policy'], far, taught)[0]
    trust = gained(models, states, batch['waypoints'], batch['policy_goals'], waypoint_sharpness)
    bootstrap = jnp.mean(trust * divergence)
    metrics = {
        'loss/value': value_loss, 'loss/subpolicy': sub_loss, 'loss/policy': imitation,
        'loss/bootstrap': bootstrap, 'kl/subpolicy': divergence.mean(), 'policy/trust': trust.mean(),
    }
    return value_loss + sub_loss + imitation + bootstrap, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'value'}, rate=target_rate))


def action_free_error(
    value: Network, models: Models, batch: Batch, *, discount: float, expectile: float
) -> jax.Array:
  """[] the expectile loss of V towards its one-step targets; the target network says which side counts."""
  here, there = (joined(batch[name], batch['value_goals']) for name in ('states', 'next_states'))
  slow = jax.lax.stop_gradient(models['target'])
  targets = bootstrapped(batch, value.apply(slow, there), discount=discount)
  side = jnp.where(targets < value.apply(slow, here), 1 - expectile, expectile)
  return jnp.mean(side * jnp.square(targets - value.apply(models['value'], here)))
