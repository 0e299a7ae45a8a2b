"""GCIQL: implicit Q-learning of how far every goal is, from goals given in hindsight.

    L_V = mean |τ - 1(u < 0)| u²,   u = min_i Q̄_i(s, a, g) - V(s, g)
    L_Q = Σ_i mean (r + γ (1 - [s = g]) V(s', g) - Q_i(s, a, g))²,   r = [s = g] - 1
    L_π = -mean min(exp(α A(s, a, g')), w) log π(a | s, g'),   A = min_i Q̄_i(s, a, g') - V(s, g')

It is `iql` with two goals to a row: g, for the values, is often out of reach of the row, g' for the policy
lies in its future.

Source: Park et al., 2024 (OGBench), https://arxiv.org/abs/2410.20092, appendix C; after Kostrikov et al.,
2021, https://arxiv.org/abs/2110.06169.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses.actor_critic import regression_on_values
from rlx.losses.value import expectile_error, exponential_weights
from rlx.models.networks import Network, Policy
from rlx.rollout.control.hindsight import joined
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def gciql(
    rollout: Rollout, policy: Policy, value: Network, critic: Network, *, discount: float,
    target_rate: float, expectile: float, sharpness: float, weight_max: float,
) -> Algorithm:
  """Goal-conditioned implicit Q-learning; trains `policy`, `value`, `critic`; `target` follows `critic`.

  Args:
    rollout: yields the rows of `hindsight`.
    policy: a distribution of actions, for a state and a goal.
    value: V(s, g).
    critic: an ensemble of Q(s, a, g).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ (the authors': 0.9).
    sharpness: α, one over the units of returns.
    weight_max: w, the largest weight of an action (theirs: 100).
  """
  held = jax.lax.stop_gradient

  def judge(models: Models, states: jax.Array, goals: jax.Array, actions: jax.Array):
    """(min_i Q̄_i, V), each [B]."""
    observations = joined(states, goals)
    best = held(critic.apply(models['target'], observations, actions).min(axis=0))
    return best, value.apply(models['value'], observations)

  def loss(models: Models, batch: Batch, key: Key):
    del key
    states, goals, actions = batch['states'], batch['value_goals'], batch['actions']
    judged, values = judge(models, states, goals, actions)
    value_loss = expectile_error(judged - values, expectile=expectile).mean()
    here, there = joined(states, goals), joined(batch['next_states'], goals)
    rows = {**batch, 'observations': here, 'next_observations': there}
    critic_loss = regression_on_values(critic, value, models, rows, discount=discount)

    judged, values = judge(models, states, batch['policy_goals'], actions)
    weights = exponential_weights(judged - values, sharpness=sharpness, weight_max=weight_max)
    logprobs, _ = policy.score(models['policy'], joined(states, batch['policy_goals']), actions)
    policy_loss = -jnp.mean(weights * logprobs)
    metrics = {
        'loss/value': value_loss, 'loss/critic': critic_loss, 'loss/policy': policy_loss,
        'critic/mean': judged.mean(), 'policy/weight': weights.mean(),
    }
    return value_loss + critic_loss + policy_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))
