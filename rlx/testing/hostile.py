"""Parts of a config that are wrong on purpose: gradients, weights and rewards that become NaN.

They are functions of the state alone, so that a run which is stopped and goes on meets them again.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from rlx.types import Algorithm, Annotate, Batch, Key, Models


def nan_gradients(parent: Algorithm, *, share: float) -> Algorithm:
  """An algorithm with losses of which a share is NaN, drawn by the key of the update.

  Args:
    parent: the algorithm.
    share: of the updates; 1 for all.
  """

  def loss(models: Models, batch: Batch, key: Key):
    value, metrics = parent.loss(models, batch, key)
    is_hit = jax.random.uniform(jax.random.fold_in(key, 1)) < share
    return value * jnp.where(is_hit, jnp.nan, 1.0), metrics

  return dataclasses.replace(parent, loss=loss)


def nan_weights(optimizer: optax.GradientTransformation, *, at_update: int) -> optax.GradientTransformation:
  """An optimizer whose update is NaN once; the guard looks at gradients, and lets it pass.

  Args:
    optimizer: in a config, a section of its own.
    at_update: counted from 0.
  """

  def init(params):
    return jnp.int32(0), optimizer.init(params)

  def update(updates, state, params=None):
    count, inner = state
    updates, inner = optimizer.update(updates, inner, params)
    spoil = lambda x: jnp.where(count == at_update, jnp.full_like(x, jnp.nan), x)
    return jax.tree.map(spoil, updates), (count + 1, inner)

  return optax.GradientTransformation(init, update)


def nan_rewards(*, share: float) -> Annotate:
  """Rewards on the device of which a share of the steps has NaN in its first row; the others are random.

  Args:
    share: of the steps.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models
    hit_key, reward_key = jax.random.split(key)
    rewards = jax.random.bernoulli(reward_key, shape=(len(batch['tokens']),)).astype(jnp.float32)
    is_hit = jax.random.uniform(hit_key) < share
    return {**batch, 'rewards': rewards.at[0].mul(jnp.where(is_hit, jnp.nan, 1.0))}

  return reward
