"""Uni-O4: PPO from a fixed data set on, whose old policy is replaced where a model of the world says so.

Three stages. The first (`cloning`) learns all that is known of the data: the values of IQL, Q and V, a model
T̂ of the world, and N policies that clone the data and keep apart from each other:

    L_i = -mean log π_i(a | s) - α KL(π_i || max_{j ≠ i} π_j)

The second (`uni_o4`) takes PPO's step for each of them at states of the data, with the actions of its
behaviour policy μ_i, a copy of π_i that stands still:

    L_i = -mean min(ρ A, clip(ρ) A),   A = Q(s, a) - V(s),   ρ = π_i(a | s) / μ_i(a | s),   a ~ μ_i(· | s)

    μ_i ← π_i  where J(π_i) > J(μ_i),   J(π) = mean of Q(s_t, π(s_t)) over dreams of H steps in T̂

at every kth update. In the third, `ppo` as it is goes on online from `policy`, the μ_i of the highest J, and
from `value`; no loss is changed at the switch.

Source: Lei et al., 2023, https://arxiv.org/abs/2311.03351, section 3; the mean over the steps of a dream is
as in the authors' code. That the KL is estimated with an action of π_i, the other policies held, that the
actions are clipped for Q as the environment clips them, and that Q is that of each critic where J is compared
are our reading.
"""

import functools

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.evaluation import ope
from rlx.losses import policy as policy_losses
from rlx.losses import ratios
from rlx.losses.actor_critic import regression_on_values
from rlx.losses.value import expectile_error, highest
from rlx.models import dynamics as models_of_the_world
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_EPS = 1e-8  # of the standard deviation of advantages
_DREAMS_SEED = 0

_NOBODY = -1e30  # below every log-probability; infinity would make slopes NaN


def cloning(
    rollout: Rollout, policy: Policy, members: Network, value: Network, critic: Network, dynamics: Dynamics,
    *, diversity: float, discount: float, target_rate: float, expectile: float,
) -> Algorithm:
  """The first stage; trains `members`, `value`, `critic` and `dynamics`.

  `slow['target']` follows `critic`, and `slow['policy']` is the first of the members.

  Args:
    rollout: yields transitions of a data set.
    policy: a member; its samples have gradients.
    members: `several` of it.
    value: V(s).
    critic: an ensemble of Q(s, a).
    dynamics: a forward model.
    diversity: α, below 1/2 (the authors': 0.1); from there on two Gaussian members run from each other.
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    expectile: τ of V.
  """

  def loss(models: Models, batch: Batch, key: Key):
    observations, actions = batch['observations'], batch['actions']
    logprobs = members.apply(models['members'], observations, actions)
    apart = distances(policy, members, models['members'], observations, key)
    judged = jax.lax.stop_gradient(critic.apply(models['target'], observations, actions).min(axis=0))
    advantages = judged - value.apply(models['value'], observations)
    value_loss = expectile_error(advantages, expectile=expectile).mean()
    critic_loss = regression_on_values(critic, value, models, batch, discount=discount)
    model_loss = models_of_the_world.forward_loss(dynamics, models['dynamics'], batch).mean()
    metrics = {
        'loss/policy': -logprobs.mean(),
        'loss/value': value_loss,
        'loss/critic': critic_loss,
        'loss/dynamics': model_loss,
        'policy/apart': apart.mean(),
        'critic/mean': judged.mean(),
    }
    return value_loss + critic_loss + model_loss - logprobs.mean() - diversity * apart.mean(), metrics

  follow = tracking.polyak({'target': 'critic'}, rate=target_rate)

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    return {**follow(slow, params, update), 'policy': jax.tree.map(lambda x: x[0], params['members'])}

  return Algorithm(rollout=rollout, loss=loss, track=track)


def uni_o4(
    rollout: Rollout, data: Batch, policy: Policy, value: Network, critic: Network, dynamics: Dynamics, *,
    clip_low: float, clip_high: float, gate_period: int, pessimism: float, num_dreams: int, horizon: int,
) -> Algorithm:
  """The second stage; trains `members` by what the first one left in `value`, `critic` and `dynamics`.

  `slow['behaviours']` is replaced by the gate, and `slow['policy']` is the best of them.

  Args:
    rollout: yields `observations` of a data set.
    data: where dreams begin.
    policy: a member.
    value: V(s), fixed.
    critic: an ensemble of Q(s, a), fixed.
    dynamics: a forward model, fixed.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    gate_period: k, updates between two comparisons.
    pessimism: standard deviations over the critics by which a policy has to be better; the paper's is 0.
    num_dreams: over which J is averaged.
    horizon: H, steps of a dream.
  Raises:
    ValueError: a count is not positive.
  """
  if min(gate_period, num_dreams, horizon) < 1:
    raise ValueError(
        f'gate_period={gate_period}, num_dreams={num_dreams}, horizon={horizon}: at least 1 each'
    )
  places_key, dreams_key = jax.random.split(jax.random.key(_DREAMS_SEED))
  places = jax.random.randint(places_key, (num_dreams,), 0, data['rewards'].shape[0])
  starts = data['observations'][places]

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    observations, behaviours = batch['observations'], models['behaviours']
    keys = jax.random.split(key, jax.tree.leaves(behaviours)[0].shape[0])
    actions, logprobs = jax.vmap(policy.sample, (0, None, 0))(behaviours, observations, keys)
    worth = lambda x: critic.apply(models['critic'], observations, jnp.clip(x, -1, 1)).min(axis=0)
    advantages = jax.vmap(worth)(actions) - value.apply(models['value'], observations)[None]
    centred = advantages - advantages.mean(axis=1, keepdims=True)
    rows = lambda x: jnp.swapaxes(x, 0, 1)  # [num, B, ...] as [B, num, ...]
    return {
        **batch, 'actions': rows(actions), 'old_logprobs': rows(logprobs),
        'advantages': rows(centred / (advantages.std(axis=1, keepdims=True) + _EPS)),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    scored = jax.vmap(policy.score, (0, None, 1), 1)
    logprobs, entropy = scored(models['members'], batch['observations'], batch['actions'])
    old, clip = batch['old_logprobs'], dict(clip_low=clip_low, clip_high=clip_high)
    policy_loss = policy_losses.clipped_surrogate(logprobs, old, batch['advantages'], **clip).mean()
    metrics = {
        'loss/policy': policy_loss,
        'policy/entropy': entropy.mean(),
        'policy/ratio_distance': jnp.abs(ratios.ratio(logprobs, old) - 1).mean(),
    }
    return policy_loss, metrics

  def gate(slow: Models, params: Models, key: Key) -> Models:
    judge = jax.vmap(lambda params: worth_in_dreams(
        policy, critic, dynamics, params, slow, starts, key, horizon=horizon
    ))
    new, old = judge(params['members']), judge(slow['behaviours'])  # [num, critics]
    better = jax.vmap(functools.partial(ope.accepts, pessimism=pessimism))(new, old)
    pick = lambda a, b: jnp.where(better.reshape(-1, *[1] * (a.ndim - 1)), a, b)
    behaviours = jax.tree.map(pick, params['members'], slow['behaviours'])
    best = jnp.argmax(pick(new, old).mean(axis=1))
    return {**slow, 'behaviours': behaviours, 'policy': jax.tree.map(lambda x: x[best], behaviours)}

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    key = jax.random.fold_in(dreams_key, update)  # both sides of a comparison dream with the same noise
    due = (update + 1) % gate_period == 0
    return jax.lax.cond(due, lambda slow: gate(slow, params, key), lambda slow: slow, dict(slow))

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss, track=track)


def distances(policy: Policy, members: Network, params, observations: jax.Array, key: Key) -> jax.Array:
  """[num, B] log π_i(a | s) - max_{j ≠ i} log π_j(a | s) for one a ~ π_i: on average the KL.

  What normalises the maximum is left out, for it is a constant: only π_i has a gradient.

  Args:
    policy: a member; its samples have gradients.
    members: `several` of it.
    params: of the members.
    observations: [B, O].
    key: of the actions.
  """
  num = jax.tree.leaves(params)[0].shape[0]
  actions, own = jax.vmap(policy.sample, (0, None, 0))(params, observations, jax.random.split(key, num))
  held = jax.lax.stop_gradient(params)
  others = jax.vmap(lambda x: members.apply(held, observations, x))(actions)  # [i, j, B]
  nearest = highest(jnp.where(jnp.eye(num, dtype=bool)[:, :, None], _NOBODY, others), axis=1)
  return own - nearest


def worth_in_dreams(
    policy: Policy, critic: Network, dynamics: Dynamics, params, models: Models, starts: jax.Array, key: Key,
    *, horizon: int,
) -> jax.Array:
  """J of one policy: the mean of Q_c(s_t, π(s_t)) over the steps of its dreams, [critics] float32.

  Where a dream has ended, nothing more counts.

  Args:
    policy: acts by its mode.
    critic: an ensemble of Q(s, a), with the parameters `models['critic']`.
    dynamics: where the policy acts, with the parameters `models['dynamics']`.
    params: of the policy.
    models: the other two.
    starts: [B, O].
    key: of the model's noise; the same for policies that are compared.
    horizon: H, steps of a dream.
  """

  def step(carry, key: Key):
    observations, alive = carry
    actions = jnp.clip(policy.mode(params, observations), -1, 1)
    values = critic.apply(models['critic'], observations, actions)
    new, _, ended = models_of_the_world.step(dynamics, models['dynamics'], observations, actions, key)
    return (new, alive & ~ended), (jnp.where(alive[None], values, 0).sum(axis=1), alive.sum())

  begin = starts, jnp.ones(starts.shape[0], bool)
  _, (values, steps) = jax.lax.scan(step, begin, jax.random.split(key, horizon))
  return values.sum(axis=0) / steps.sum()
