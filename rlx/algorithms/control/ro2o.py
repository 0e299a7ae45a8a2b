"""RO2O: SAC with an ensemble, whose values and policy are made smooth around the states that it sees.

Beside the losses of SAC, whose targets are the lowest of N critics, with n states ŝ drawn uniformly within ε
of each s (the largest of the n counts in the first two), and â ~ π(· | ŝ):

    smooth values:  max_ŝ mean_i ((1 - τ) max(δ_i, 0)² + τ min(δ_i, 0)²),   δ_i = Q_i(ŝ, a) - Q_i(s, a)
    smooth policy:  max_ŝ KL(π(s) || π(ŝ)) + KL(π(ŝ) || π(s))
    doubt:          mean (Q_i(ŝ, â) - (Q_i(ŝ, â) - λ std_j Q_j(ŝ, â)))²,  where the target is held

Values near the data that are too high are pulled down harder than low ones are pulled up (τ < 1/2), and the
actions of the policy there lose what the ensemble disagrees on. The same loss serves offline and online, so
that nothing changes at the switch but where the batches come from. λ is constant; the authors' falls slowly.

Source: Wen et al., 2024, https://arxiv.org/abs/2309.16973, section 4; the form of the losses as in the
authors' code.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.losses.value import highest
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models


def ro2o(
    parent: Algorithm, policy: Policy, critic: Network, *, radius: float, num_perturbations: int,
    asymmetry: float, value_smoothness: float, policy_smoothness: float, doubt_coef: float,
    doubt_deviations: float,
) -> Algorithm:
  """SAC with three terms more; trains what its parent trains.

  Args:
    parent: `sac`, on transitions from a data set or online.
    policy: of the parent, as is the next.
    critic: an ensemble of Q(s, a).
    radius: ε, in units of the observations.
    num_perturbations: n states around each one.
    asymmetry: τ in [0, 1] (the authors': 0.2).
    value_smoothness: weight of the first term.
    policy_smoothness: weight of the second.
    doubt_coef: weight of the third.
    doubt_deviations: λ.
  """
  held = jax.lax.stop_gradient

  def loss(models: Models, batch: Batch, key: Key):
    sac_key, near_key, policy_key, doubt_key = jax.random.split(key, 4)
    total, metrics = parent.loss(models, batch, sac_key)
    states = batch['observations']
    near = around(states, near_key, radius=radius, num=num_perturbations)  # [n, B, ...]
    same = lambda x: jnp.broadcast_to(x[None], (num_perturbations, *x.shape))

    rise = critic.apply(models['critic'], near, same(batch['actions']))
    rise = rise - critic.apply(models['critic'], states, batch['actions'])[:, None]
    value_loss = highest(uneven_square(rise, asymmetry=asymmetry).mean(axis=0), axis=0).mean()
    moved = jeffreys(policy, models['policy'], same(states), near, policy_key)
    policy_loss = highest(moved, axis=0).mean()

    actions, _ = policy.sample(held(models['policy']), near, doubt_key)
    values = critic.apply(models['critic'], near, actions)
    wanted = values - doubt_deviations * values.std(axis=0, keepdims=True)
    doubt = jnp.square(values - held(wanted)).mean()
    metrics = {
        **metrics, 'loss/value_smoothness': value_loss, 'loss/policy_smoothness': policy_loss,
        'critic/doubt': values.std(axis=0).mean(),
    }
    smooth = value_smoothness * value_loss + policy_smoothness * policy_loss
    return total + smooth + doubt_coef * doubt, metrics

  return dataclasses.replace(parent, loss=loss)


def around(states: jax.Array, key: Key, *, radius: float, num: int) -> jax.Array:
  """[num, ...] states, each number of which is within `radius` of that of `states` [...]."""
  return states[None] + jax.random.uniform(key, (num, *states.shape), minval=-radius, maxval=radius)


def uneven_square(x: jax.Array, *, asymmetry: float) -> jax.Array:
  """(1 - τ) x² where x > 0, τ x² where it is below; [...] as x."""
  return jnp.where(x > 0, 1 - asymmetry, asymmetry) * jnp.square(x)


def jeffreys(policy: Policy, params, states: jax.Array, others: jax.Array, key: Key) -> jax.Array:
  """KL(π(s) || π(s')) + KL(π(s') || π(s)), estimated with one action of each, drawn with the same noise.

  For (squashed) Gaussians of one standard deviation σ the shared noise cancels, and the estimate is exact:
  (μ - μ')² / σ².

  Args:
    policy: whose samples carry gradients.
    params: of the policy.
    states: [..., O].
    others: [..., O].
    key: of the noise.
  Returns:
    [...] float32.
  """
  total = 0
  for mine, his in ((states, others), (others, states)):
    actions, logprobs = policy.sample(params, mine, key)
    total = total + logprobs - policy.score(params, his, actions)[0]
  return total
