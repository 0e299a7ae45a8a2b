"""IQL: values of the best actions in the data, without asking the critic about any other action.

    L_V = mean |τ - 1(u < 0)| u²,   u = min_i Q̄_i(s, a) - V(s)
    L_Q = Σ_i mean (r + γ (1 - terminated) V(s') - Q_i(s, a))²
    L_π = -mean min(exp(β u), w) log π(a | s)

The policy is taken off the values by weighted imitation. At τ = 1/2 and β = 0 it is behaviour cloning beside
the evaluation of the behaviour policy. `in_sample` is the same for any error of the values: what XQL and
f-DVL differ in.

Source: Kostrikov et al., 2021, https://arxiv.org/abs/2110.06169, eqs. 5 to 7; w = 100 in their code.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses.actor_critic import regression_on_values
from rlx.losses.value import expectile_error, exponential_weights
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def iql(
    rollout: Rollout, policy: Policy, value: Network, critic: Network, *, discount: float,
    target_rate: float, expectile: float, sharpness: float, weight_max: float,
) -> Algorithm:
  """Implicit Q-learning; trains `policy`, `value` and `critic`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions.
    policy: a distribution of actions.
    value: V(s).
    critic: an ensemble of Q(s, a).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ (the authors': 0.7 for locomotion, 0.9 for mazes).
    sharpness: β, one over the units of returns (theirs: 3 and 10).
    weight_max: w, the largest weight of an action.
  """
  return in_sample(
      rollout, policy, value, critic, functools.partial(expectile_error, expectile=expectile),
      discount=discount, target_rate=target_rate, sharpness=sharpness, weight_max=weight_max,
  )


def in_sample(
    rollout: Rollout, policy: Policy, value: Network, critic: Network,
    value_error: Callable[[jax.Array], jax.Array], *, discount: float, target_rate: float, sharpness: float,
    weight_max: float,
) -> Algorithm:
  """The three losses above, with `value_error` of u in the place of the expectile.

  Args:
    rollout: yields transitions.
    policy: a distribution of actions.
    value: V(s).
    critic: an ensemble of Q(s, a).
    value_error: u [B] -> [B]; what is too low costs more than what is too high.
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    sharpness: β.
    weight_max: w.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    observations, actions = batch['observations'], batch['actions']
    judged = critic.apply(models['target'], observations, actions).min(axis=0)
    values = value.apply(models['value'], observations)
    advantages = jax.lax.stop_gradient(judged) - values
    value_loss = value_error(advantages).mean()
    critic_loss = regression_on_values(critic, value, models, batch, discount=discount)
    logprobs, _ = policy.score(models['policy'], observations, actions)
    weights = exponential_weights(advantages, sharpness=sharpness, weight_max=weight_max)
    policy_loss = -jnp.mean(weights * logprobs)
    metrics = {
        'loss/value': value_loss,
        'loss/critic': critic_loss,
        'loss/policy': policy_loss,
        'critic/mean': judged.mean(),
        'critic/advantage': advantages.mean(),
        'policy/weight': weights.mean(),
    }
    return value_loss + critic_loss + policy_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))
