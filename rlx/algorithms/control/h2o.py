"""H2O: SAC on a real data set and an imperfect simulator at once, which is trusted where it is right.

Two classifiers tell real transitions from simulated ones, one by (s, a) and one by (s, a, s'). What the next
state adds is the gap between the dynamics: with logits d of "real",

    log P(s' | s, a) / P̂(s' | s, a) = d_sas - d_sa,   u(s, a) = clip(mean over ŝ' of -(d_sas - d_sa), u₋, u₊),

where the ŝ' are the simulator's next state with a little noise. The critics' loss is

    mean_real (Q - y)² + mean_sim w (Q - y)² + β (log Σ_sim ω exp Q - mean_real Q),
    w = clip(P / P̂, w₋, w₊),   ω = u / Σ_sim u:

errors of the simulator's transitions count by how likely they are in reality, and values are pushed down
where it is wrong, and up where there are real data. The policy and the temperature are those of SAC.

The sum over simulated rows is over the rows of an update, so `microbatches` is 1. As usual in this
construction the second classifier is made of two networks, d_sas = d_sa + f(s, a, s'), so the gap is f.

Source: Niu et al., 2022, https://arxiv.org/abs/2206.13464, and the authors' code, in which the next
states in u are noisy copies of the simulator's too.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.algorithms.control.sac import sac
from rlx.envs.control.environment import Environment
from rlx.losses.actor_critic import bootstrapped, mean_where
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_SMALLEST = 1e-6  # of u, so that its logarithm is finite


def h2o(
    rollout: Rollout, env: Environment, policy: Policy, critic: Network, temperature: Network, gap: Network,
    *, discount: float, target_rate: float, target_entropy: float, push_coef: float, most_gap: float,
    least_weight: float, most_weight: float, num_next: int, next_noise: float, input_noise: float,
) -> Algorithm:
  """Trains `policy`, `critic`, `temperature` and `gap`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions with `offline` [B], True where they are real (`mixed.simulated`).
    env: says how many numbers an action has.
    policy: a distribution with gradients through its samples.
    critic: an ensemble of Q(s, a).
    temperature: a positive number, α.
    gap: the two networks of the classifiers, `dynamics_gap`.
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    target_entropy: of the policy, in nats for each number of the action.
    push_coef: β; 0 pushes no value.
    most_gap: u₊, in nats; u₋ is nearly 0.
    least_weight: w₋.
    most_weight: w₊ (the authors': 1).
    num_next: noisy copies of the next state in u.
    next_noise: standard deviation of their noise, in units of the observations.
    input_noise: standard deviation of the noise on what the classifiers are trained on.
  """
  held = jax.lax.stop_gradient
  parent = sac(
      rollout, env, policy, critic, temperature, discount=discount, target_rate=target_rate,
      target_entropy=target_entropy,
  )

  def targets(models: Models, batch: Batch, key: Key) -> jax.Array:
    actions, _ = policy.sample(models['policy'], batch['next_observations'], key)
    values = critic.apply(models['target'], batch['next_observations'], actions).min(axis=0)
    return bootstrapped(batch, values, discount=discount)

  def classify(models: Models, batch: Batch, key: Key) -> jax.Array:
    seen = [batch[name] for name in ('observations', 'actions', 'next_observations')]
    keys = jax.random.split(key, len(seen))
    noisy = [x + input_noise * jax.random.normal(k, x.shape) for x, k in zip(seen, keys, strict=True)]
    pair, added = gap.apply(models['gap'], *noisy)
    sign = jnp.where(batch['offline'], 1, -1)
    return -jax.nn.log_sigmoid(sign * pair) - jax.nn.log_sigmoid(sign * (held(pair) + added))

  def loss(models: Models, batch: Batch, key: Key):
    sac_key, target_key, gap_key, class_key = jax.random.split(key, 4)
    real, simulated = batch['offline'], ~batch['offline']
    rest, metrics = parent.loss({**models, 'critic': held(models['critic'])}, batch, sac_key)

    fixed = {**models, 'gap': held(models['gap'])}
    ratio = jnp.exp(log_ratio(gap, fixed['gap'], batch))
    weights = jnp.where(real, 1.0, jnp.clip(ratio, least_weight, most_weight))
    gaps = gap_of(gap, fixed['gap'], batch, gap_key, num=num_next, noise=next_noise)
    gaps = jnp.clip(gaps, _SMALLEST, most_gap)

    values = critic.apply(models['critic'], batch['observations'], batch['actions'])
    errors = weights[None] * jnp.square(values - targets(models, batch, target_key)[None])
    bellman = (mean_where(errors, real) + mean_where(errors, simulated)).sum()
    share = jnp.where(simulated, gaps, 0)
    share = share / jnp.maximum(share.sum(), _SMALLEST)
    high = jax.nn.logsumexp(values, axis=-1, b=jnp.broadcast_to(share[None], values.shape))
    push = (high - mean_where(values, real)).sum()
    told = classify(models, batch, class_key)
    total = bellman + push_coef * push + mean_where(told, real) + mean_where(told, simulated)
    metrics = {
        **metrics, 'loss/critic': bellman, 'loss/push': push, 'loss/classifiers': told.mean(),
        'gap/mean': mean_where(gaps, simulated), 'gap/weight': mean_where(weights, simulated),
    }
    return rest + total, metrics

  return dataclasses.replace(parent, loss=loss)


def log_ratio(gap: Network, params, batch: Batch) -> jax.Array:
  """[B] log P(s' | s, a) / P̂(s' | s, a)."""
  return gap.apply(params, batch['observations'], batch['actions'], batch['next_observations'])[1]


def gap_of(gap: Network, params, batch: Batch, key: Key, *, num: int, noise: float) -> jax.Array:
  """[B] KL(P̂ || P) at each (s, a), estimated with `num` noisy copies of the next state; not clipped."""
  next_states = batch['next_observations']
  noise = noise * jax.random.normal(key, (num, *next_states.shape))
  ratio = lambda s: log_ratio(gap, params, {**batch, 'next_observations': s})
  return -jax.vmap(ratio)(next_states[None] + noise).mean(axis=0)
