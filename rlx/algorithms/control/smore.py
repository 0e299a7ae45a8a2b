"""SMORe: scores of actions for goals by matching distributions, without a reward and without a discriminator.

    min_S  -b E_q[S(s, a, g)] + b (1 - γ) E_ρ[S(s, a, g)] + 1/4 E_m[(γ M(s', g) - S(s, a, g))²]
    L_M = mean |τ - 1(u < 0)| u²,   u = min_i S̄_i(s, a, g) - M(s, g)
    L_π = -mean min(exp(α u), w) log π(a | s, g)

q are goal transitions, the rows whose goal is the state that they lead to; ρ are rows with the goals that
hindsight gives them; m = b q + (1 - b) ρ. The score of a goal transition is pushed up, that of what the data
begin with down, and in between a score is the discounted best score (M, an expectile) of what comes next. It
is the dual, for the Pearson χ² divergence, of bringing the mixture of ρ and the policy's own transitions to
the mixture of ρ and q.

Source: Sikchi et al., 2023, https://arxiv.org/abs/2311.02013, and the authors' code, in which the actions of
the data stand for the policy's in the second term and M(s', g) is held. The formula above could not be
compared with the paper's own. That 1/4 is taken over both parts of m is our reading; the code takes it over ρ
alone.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.losses.value import expectile_error, exponential_weights
from rlx.models.networks import Network, Policy
from rlx.rollout.control.hindsight import joined
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def smore(
    rollout: Rollout, policy: Policy, value: Network, critic: Network, *, discount: float,
    target_rate: float, expectile: float, mixture: float, sharpness: float, weight_max: float,
) -> Algorithm:
  """Score models; trains `policy`, `value` (M) and `critic` (S); `slow['target']` follows `critic`.

  Args:
    rollout: yields the rows of `hindsight`.
    policy: a distribution of actions, for a state and a goal.
    value: M(s, g).
    critic: an ensemble of S(s, a, g).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ, towards the best action of the data (the authors': 0.8).
    mixture: b, share of goal transitions, in (0, 1) (theirs: 0.5).
    sharpness: α, one over the units of scores (theirs: 3).
    weight_max: w, the largest weight of an action (theirs: 100).
  """
  held = jax.lax.stop_gradient

  def scores(models: Models, batch: Batch, goals: jax.Array) -> tuple[jax.Array, jax.Array]:
    """S of the rows for some goals and γ M of what follows, [num, B] and [1, B]."""
    following = value.apply(held(models['value']), joined(batch['next_states'], goals))
    now = critic.apply(models['critic'], joined(batch['states'], goals), batch['actions'])
    return now, discount * following[None]

  def advantages(models: Models, batch: Batch, goals: jax.Array) -> jax.Array:
    observations = joined(batch['states'], goals)
    best = held(critic.apply(models['target'], observations, batch['actions']).min(axis=0))
    return best - value.apply(models['value'], observations)

  def loss(models: Models, batch: Batch, key: Key):
    del key
    arriving, after_arriving = scores(models, batch, batch['next_goals'])
    others, after_others = scores(models, batch, batch['value_goals'])
    contrast = mixture * ((1 - discount) * others - arriving)
    spread = mixture * jnp.square(after_arriving - arriving)
    spread = spread + (1 - mixture) * jnp.square(after_others - others)
    score_loss = (contrast + spread / 4).mean(axis=1).sum()
    value_loss = expectile_error(advantages(models, batch, batch['value_goals']), expectile=expectile).mean()

    goals = batch['policy_goals']
    better = advantages(models, batch, goals)
    weights = exponential_weights(better, sharpness=sharpness, weight_max=weight_max)
    logprobs, _ = policy.score(models['policy'], joined(batch['states'], goals), batch['actions'])
    policy_loss = -jnp.mean(weights * logprobs)
    metrics = {
        'loss/critic': score_loss, 'loss/value': value_loss, 'loss/policy': policy_loss,
        'critic/arriving': arriving.mean(), 'critic/mean': others.mean(), 'policy/weight': weights.mean(),
    }
    return score_loss + value_loss + policy_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))
