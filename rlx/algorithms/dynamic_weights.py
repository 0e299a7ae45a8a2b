"""GRPO of several rewards whose weights move as it learns: dynamic reward weighting.

    r_i = Σ_k w_k r_ik,    w from what is reached (`by_volume`) or from gradients (`by_influence`)

Fixed weights go to the convex part of what can be reached. `by_volume` looks at what each objective's mean
reward is now: weights follow the hypervolume (`controllers.objectives.volume_slopes`). `by_influence` moves
them to objectives whose gradient helps all of them (`controllers.objectives.influence`).

Source: https://arxiv.org/abs/2509.11452, of which the formulas of the weights are our reading.
"""

from collections.abc import Callable, Sequence
import dataclasses

import jax
from jax.flatten_util import ravel_pytree
import jax.numpy as jnp

from rlx.advantages import groups
from rlx.algorithms.grpo import grpo
from rlx.controllers import objectives
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.errors import above, at_least, between
from rlx.losses import comparisons
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def by_volume(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    preferences: Sequence[float], worthless: Sequence[float], strength: float, rate: float,
) -> Algorithm:
  """GRPO under weights that follow the hypervolume of what is reached.

  Args:
    rollout: yields groups of samples of the policy.
    reward: adds `objectives` [B, K].
    policy: its parameters are trained.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    preferences: K numbers above 0; with 1 each, what has least weighs most.
    worthless: K numbers, rewards that are worth nothing.
    strength: 1 follows the volume; with 0 the preferences are fixed weights.
    rate: of the running mean of what is reached, in (0, 1].
  """
  between(0, 1, rate=rate)
  above(0, **{f'preferences_{k}': p for k, p in enumerate(preferences)})
  at_least(0, strength=strength)
  wanted, nothing = jnp.asarray(preferences, jnp.float32), jnp.asarray(worthless, jnp.float32)

  def observe(reached: jax.Array, batch: Batch) -> jax.Array:
    now = jnp.nanmean(batch['objectives'], axis=0)
    moved = jnp.where(jnp.isnan(reached), now, reached + rate * (now - reached))
    return jnp.where(jnp.isnan(now), reached, moved)

  remembering = with_memory(
      rollout, 'reached', begin=lambda key: jnp.full(wanted.shape, jnp.nan, jnp.float32), observe=observe,
      annotate=lambda reached, batch: _told(
          batch, objectives.volume_slopes(reached, wanted, nothing, strength=strength)),
  )
  return _weighed(remembering, reward, policy, kl, clip_low, clip_high)


def by_influence(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, clip_low: float, clip_high: float,
    num_objectives: int, rate: float,
) -> Algorithm:
  """GRPO under weights that grow with how much an objective's gradient helps all of them.

  A gradient of each objective is taken at each step, of its centred rewards.

  Args:
    rollout: yields groups of samples of the policy.
    reward: adds `objectives` [B, K].
    policy: its parameters are trained.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    num_objectives: K.
    rate: η, at least 0, with which the weights stay as they are.
  """
  at_least(0, rate=rate)
  remembering = with_memory(
      rollout, 'objective_weights', begin=lambda key: jnp.ones(num_objectives),
      annotate=lambda weights, batch: _told(batch, weights),
      observe=lambda weights, batch: batch['next_weights'][0],
  )
  parent = _weighed(remembering, reward, policy, kl, clip_low, clip_high)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    weights = batch['objective_weights'][0]
    gradients = objective_gradients(lambda params: policy.score(params, batch)[0], models['policy'], batch)
    moved = objectives.influence(weights, gradients, rate=rate)
    batch = {**batch, 'next_weights': jnp.broadcast_to(moved, batch['objectives'].shape)}
    return parent.advantage(models, batch, key)

  return dataclasses.replace(parent, advantage=advantage)


def objective_gradients(score: Callable, params, batch: Batch) -> jax.Array:
  """[K, D] gradients of the objectives of samples by REINFORCE, with the mean of the group as baseline.

  Args:
    score: `params -> logprobs` [B, T].
    params: of the policy, D numbers.
    batch: with `objectives` [B, K], `groups` and `action_mask`.
  """
  centred = jax.vmap(lambda x: groups.centred(x, batch['groups']), in_axes=1)(batch['objectives'])  # [K, B]

  def gained(params):
    sums = comparisons.summed(score(params), batch['action_mask'])
    return jnp.mean(centred * sums[None], axis=1)

  return jax.vmap(lambda tree: ravel_pytree(tree)[0])(jax.jacrev(gained)(params))


def _told(batch: Batch, weights: jax.Array) -> Batch:
  rows = len(batch['groups'])
  told = {f'weight/objective_{k}': jnp.full(rows, weight) for k, weight in enumerate(weights)}
  return {**batch, **told, 'objective_weights': jnp.broadcast_to(weights, (rows, len(weights)))}


def _weighed(rollout, reward, policy, kl, clip_low, clip_high) -> Algorithm:
  """GRPO of the objectives, weighed by the column `objective_weights`."""

  def rewarded(models: Models, batch: Batch, key: Key) -> Batch:
    batch = reward(models, batch, key)
    told = {f'reward/objective_{k}': x for k, x in enumerate(batch['objectives'].T)}
    return {**batch, **told, 'rewards': jnp.sum(batch['objective_weights'] * batch['objectives'], axis=1)}

  return grpo(
      rollout, rewarded, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0
  )
