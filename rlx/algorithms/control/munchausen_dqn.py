"""Munchausen DQN: soft Q-learning that is also paid for how sure it was of what it did.

    π̄ = softmax(Q̄ / τ)
    y = r + α [τ log π̄(a | s)]_{l_0}^0 + γ (1 - terminated) V(s')
    V(s') = Σ_a' π̄(a' | s') (Q̄(s', a') - τ log π̄(a' | s')) = τ log Σ_a' exp(Q̄(s', a') / τ)

The bonus, 0 for an action that was certain, widens the gap between the best action and the others. As τ falls
to 0 with α = 0 it is DQN, with `dqn.max_target`. Changed from there: the target. Of rows that span several
steps only the first action is paid.

Source: Vieillard et al., 2020, https://arxiv.org/abs/2007.14430, the update of M-DQN.
"""

import jax
import jax.numpy as jnp
import optax

from rlx.algorithms.control.dqn import q_learning
from rlx.models.networks import GreedyPolicy, picked
from rlx.rollout.control.replay import discounts
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def munchausen_dqn(
    rollout: Rollout, policy: GreedyPolicy, *, alpha: float, tau: float, lowest: float, discount: float,
    huber_delta: float, target_period: int, target_rate: float,
) -> Algorithm:
  """Deep Q-learning with log-policy rewards; trains `policy`, and `slow['target']` follows it.

  Args:
    rollout: yields transitions.
    policy: ε-greedy, over Q(s, ·).
    alpha: α in [0, 1], what the bonus weighs (the paper: 0.9).
    tau: τ > 0, in the units of returns (the paper: 0.03, of clipped rewards).
    lowest: l_0 <= 0, the least that the bonus is before it is weighed (the paper: -1).
    discount: γ per step.
    huber_delta: errors beyond it count linearly.
    target_period: updates between two copies.
    target_rate: of what is copied.
  Raises:
    ValueError: `tau` or `lowest` out of its range.
  """
  if tau <= 0 or lowest > 0:
    raise ValueError(f'tau={tau}, lowest={lowest}: need tau above 0 and a lowest bonus that is not')

  def judge(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, jax.Array, jax.Array]:
    del key
    lagging = lambda name: policy.values(models['target'], batch[name])
    surprise = tau * picked(jax.nn.log_softmax(lagging('observations') / tau), batch['actions'])
    soft = tau * jax.nn.logsumexp(lagging('next_observations') / tau, axis=-1)
    rewards = batch['rewards'] + alpha * jnp.clip(surprise, lowest, 0)
    targets = jax.lax.stop_gradient(rewards + discounts(batch, discount) * soft)
    values = picked(policy.values(models['policy'], batch['observations']), batch['actions'])
    errors = values - targets
    return optax.losses.huber_loss(errors, delta=huber_delta), jnp.abs(errors), values

  return q_learning(rollout, judge, target_period=target_period, target_rate=target_rate)
