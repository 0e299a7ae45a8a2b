"""DQN and its relatives: values of discrete actions, learnt off policy from their own best.

    y = r + γ (1 - terminated) max_a Q̄(s', a),   L = mean w ℓ(Q(s, a) - y),   ℓ Huber's

What the value behind a row is, is a function: `max_target` above, or `double_target`, Q̄(s', argmax Q(s', ·)).
Dueling is a network (`networks.dueling`); n-step and prioritised replay are rollouts, whose `spans` and
`weights` are read here, and for which the advantage slot adds `priorities` |Q(s, a) - y|, made before the
update. ε is constant, or annealed (`models/exploration.py`). `models['policy']` is the network Q.
`q_learning` is what C51, QR-DQN and IQN share.

Source: Mnih et al., 2015, https://doi.org/10.1038/nature14236, algorithm 1; van Hasselt et al., 2015,
https://arxiv.org/abs/1509.06461, eq. 4.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from rlx import tracking
from rlx.models.networks import GreedyPolicy, picked
from rlx.rollout.control.replay import discounts, weights
from rlx.types import Algorithm, Batch, Key, Models, Rollout

Target = Callable[[jax.Array, jax.Array], jax.Array]  # (Q [B, A], Q̄ [B, A]) -> [B]
Judge = Callable[[Models, Batch, Key], tuple[jax.Array, jax.Array, jax.Array]]


def max_target(online: jax.Array, lagging: jax.Array) -> jax.Array:
  """max Q̄: its own best. [B]"""
  del online
  return lagging.max(axis=-1)


def double_target(online: jax.Array, lagging: jax.Array) -> jax.Array:
  """Q̄ of the action that Q thinks best, which is no longer too high by the noise of one of them. [B]"""
  return picked(lagging, jnp.argmax(online, axis=-1))


def dqn(
    rollout: Rollout, policy: GreedyPolicy, *, target: Target, discount: float, huber_delta: float,
    target_period: int, target_rate: float = 1.0,
) -> Algorithm:
  """Deep Q-learning; trains `policy`, and `slow['target']` copies it now and then.

  Args:
    rollout: yields transitions.
    policy: ε-greedy, over Q(s, ·).
    target: the value behind a row, such as `max_target` and `double_target`.
    discount: γ per step.
    huber_delta: errors beyond it count linearly (the authors clip errors at 1).
    target_period: updates between two copies.
    target_rate: of what is copied; with a period of 1 and a small rate the target follows smoothly (Polyak).
  """

  def judge(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, jax.Array, jax.Array]:
    del key
    following = batch['next_observations']
    bootstrap = target(
        policy.values(models['policy'], following), policy.values(models['target'], following)
    )
    targets = jax.lax.stop_gradient(batch['rewards'] + discounts(batch, discount) * bootstrap)
    values = picked(policy.values(models['policy'], batch['observations']), batch['actions'])
    errors = values - targets
    return optax.losses.huber_loss(errors, delta=huber_delta), jnp.abs(errors), values

  return q_learning(rollout, judge, target_period=target_period, target_rate=target_rate)


def q_learning(rollout: Rollout, judge: Judge, *, target_period: int, target_rate: float) -> Algorithm:
  """Whatever is learnt of values and their distributions, row by row.

  Args:
    rollout: yields transitions.
    judge: `(models, batch, key) -> (errors, priorities, values)`, of which the first two are [B].
    target_period: updates between two copies of `models['policy']` into `slow['target']`.
    target_rate: of what is copied.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    return {**batch, 'priorities': judge(models, batch, key)[1]}

  def loss(models: Models, batch: Batch, key: Key):
    errors, _, values = judge(models, batch, key)
    critic_loss = jnp.mean(weights(batch) * errors)
    return critic_loss, {'loss/critic': critic_loss, 'critic/mean': values.mean()}

  track = tracking.periodic({'target': 'policy'}, period=target_period, rate=target_rate)
  return Algorithm(rollout=rollout, advantage=advantage, loss=loss, track=track)
