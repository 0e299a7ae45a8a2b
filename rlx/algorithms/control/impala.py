"""IMPALA: an actor-critic that learns from steps of an older policy; V-trace corrects both of its halves.

    ρ_t = min(ρ̄, π / μ),   c_t = λ min(c̄, π / μ)
    v_t = V(s_t) + δ_t + γ c_t (v_{t+1} - V(s_{t+1})),   δ_t = ρ_t (r_t + γ V(s_{t+1}) - V(s_t))
    L = -mean log π(a | s) ρ_t (r_t + γ v_{t+1} - V(s_t)) + c_v mean (V(s) - v)² / 2 - c_e mean H(π)

μ is the policy that acted. In the paper it is behind because actors run beside the learner; here because
several updates follow each rollout: rows stay stretches of time, so that `updates.minibatches` are of whole
stretches, and the targets are made anew at each update, with the policy and the critic as they are then.

AlphaStar adds `off_policy.upgo`, which follows what was done where it went better than expected:
- c_u mean log π(a | s) min(1, π / μ) (G_t - V(s_t)).

Source: Espeholt et al., 2018, https://arxiv.org/abs/1802.01561, section 4; UPGO: Vinyals et al., 2019,
https://doi.org/10.1038/s41586-019-1724-z.
"""

import jax
import jax.numpy as jnp

from rlx.advantages import off_policy, temporal
from rlx.errors import at_least
from rlx.losses import regularizers
from rlx.losses import value as value_losses
from rlx.losses.ratios import ratio
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def impala(
    rollout: Rollout, policy: Policy, value: Network, *, entropy_coef: float, value_coef: float,
    discount: float, lambda_: float, clip_rho: float, clip_c: float, clip_pg: float | None = None,
    upgo_coef: float = 0.0,
) -> Algorithm:
  """Importance-weighted actor-learner; trains `models['policy']` and `models['value']`.

  Args:
    rollout: yields [B, T] stretches of time with `sampler_logprobs`; updates see whole stretches.
    policy: a distribution of actions.
    value: V(s).
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    discount: γ per step.
    lambda_: in [0, 1]; 1 is the paper.
    clip_rho: ρ̄, at least `clip_c` (1 in the paper).
    clip_c: c̄ (1 in the paper).
    clip_pg: ρ̄ of the policy gradient alone; `clip_rho` if not given.
    upgo_coef: c_u; 0 is IMPALA, 1 AlphaStar's.
  Raises:
    ValueError: `clip_rho` is below `clip_c`.
  """
  if clip_rho < clip_c:
    raise ValueError(f'clip_rho={clip_rho} is below clip_c={clip_c}; V-trace asks for at least as much')
  at_least(0, value_coef=value_coef)

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch['observations'], batch['actions'])
    values = value.apply(models['value'], batch['observations'])
    ratios = ratio(logprobs, batch['sampler_logprobs'])
    held = jax.lax.stop_gradient((values, value.apply(models['value'], batch['next_observations']), ratios))
    targets, advantages = temporal.vtrace_episodes(
        batch['rewards'], held[0], held[1], batch['terminated'], batch['truncated'], held[2],
        discount=discount, lambda_=lambda_, clip_rho=clip_rho, clip_c=clip_c, clip_pg=clip_pg,
    )
    if upgo_coef:
      ends = batch['terminated'], batch['truncated']
      upward = off_policy.upgo(batch['rewards'], *held[:2], *ends, discount=discount)
      advantages += upgo_coef * jnp.minimum(held[2], 1) * (upward - held[0])
    policy_loss = -jnp.mean(logprobs * advantages)
    value_loss = value_losses.squared_error(values, targets).mean()
    entropy = entropy.mean()
    metrics = {
        'loss/policy': policy_loss,
        'loss/value': value_loss,
        'policy/entropy': entropy,
        'policy/capped': jnp.mean(held[2] > clip_rho),
        'kl/old': regularizers.kl_k3(batch['sampler_logprobs'], logprobs).mean(),
    }
    return policy_loss + value_coef * value_loss - entropy_coef * entropy, metrics

  return Algorithm(rollout=rollout, loss=loss)
