"""TQC: SAC whose critics are quantiles, and whose targets leave the highest of all of them out.

    z_(1) <= .. <= z_(N M)    the M quantiles of N target critics at (s', a'), a' ~ π(· | s'), sorted together
    y_k = r + γ (1 - terminated) (z_(k) - α log π(a' | s')),   k = 1 .. N M - N d
    L_Q = Σ_n mean_i mean_k |τ_i - 1(y_k < θ_n,i)| ℓ_1(y_k - θ_n,i),   τ_i = (2 i - 1) / (2 M)
    L_π = mean (α log π(ã | s) - mean_n,i θ_n,i(s, ã)),   ã ~ π(· | s)

L_α is SAC's. Against overestimation the highest quantiles are left out, d for each critic, and not what lies
between two critics.

Source: Kuznetsov et al., 2020, https://arxiv.org/abs/2005.04269, section 3.
"""

import jax
import jax.numpy as jnp

from rlx import tracking
from rlx.algorithms.control.qr_dqn import quantile_huber
from rlx.algorithms.control.sac import soft_climb
from rlx.envs.control.environment import Environment
from rlx.losses.actor_critic import bootstrapped
from rlx.models.critics import midpoints
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def tqc(
    rollout: Rollout, env: Environment, policy: Policy, critic: Network, temperature: Network, *,
    dropped: int, discount: float, target_rate: float, target_entropy: float,
) -> Algorithm:
  """Truncated quantile critics; trains the models of SAC.

  Args:
    rollout: yields transitions.
    env: says how many numbers an action has.
    policy: a distribution with gradients through its samples.
    critic: `quantile_critics` (the paper: 5 critics of 25 quantiles).
    temperature: a positive number, α.
    dropped: d, of the quantiles of each critic (the paper: 0 to 5, most often 2).
    discount: γ per step.
    target_rate: share of the critic that `slow['target']` takes on after each update.
    target_entropy: of the policy, in nats for each number of the action.
  """
  wanted_entropy = target_entropy * env.actions.size
  held = jax.lax.stop_gradient

  def targets(models: Models, batch: Batch, key: Key) -> jax.Array:
    actions, logprobs = policy.sample(models['policy'], batch['next_observations'], key)
    quantiles = critic.apply(models['target'], batch['next_observations'], actions)
    paid = temperature.apply(models['temperature']) * logprobs
    soft = truncated(quantiles, dropped=dropped) - paid[:, None]
    return jax.vmap(lambda after: bootstrapped(batch, after, discount=discount), 1, 1)(soft)

  def loss(models: Models, batch: Batch, key: Key):
    target_key, action_key = jax.random.split(key)
    quantiles = critic.apply(models['critic'], batch['observations'], batch['actions'])
    num = quantiles.shape[-1]
    errors = quantile_huber(quantiles, targets(models, batch, target_key)[None], midpoints(num), delta=1.0)
    critic_loss = jnp.mean(errors, axis=1).sum() / num
    worth = lambda actions: jnp.mean(
        critic.apply(held(models['critic']), batch['observations'], actions), axis=(0, 2)
    )
    policy_loss, temperature_loss, metrics = soft_climb(
        policy, temperature, worth, models, batch, action_key, target_entropy=wanted_entropy
    )
    metrics |= {'loss/critic': critic_loss, 'critic/mean': quantiles.mean()}
    return critic_loss + policy_loss + temperature_loss, metrics

  return Algorithm(rollout=rollout, loss=loss, track=tracking.polyak({'target': 'critic'}, rate=target_rate))


def truncated(quantiles: jax.Array, *, dropped: int) -> jax.Array:
  """All but the highest of what several critics say of each row, in order: [B, N (M - dropped)].

  Args:
    quantiles: [N, B, M].
    dropped: d, for each critic; N d are left out, whose ever they are.
  Raises:
    ValueError: nothing would be left, or it is negative.
  """
  num, rows, each = quantiles.shape
  if not 0 <= dropped < each:
    raise ValueError(f'dropped={dropped} of {each} quantiles of each critic: from 0 to {each - 1}')
  together = jnp.sort(jnp.swapaxes(quantiles, 0, 1).reshape(rows, num * each), axis=-1)
  return together[:, : num * (each - dropped)]
