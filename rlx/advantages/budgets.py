"""Thinking that may be cut short: rewards at several budgets, and what thinking between two of them earned.

A row is cut at m budgets b_1 < .. < b_m and answers behind each cut, with rewards r_1 .. r_m. What is
thought between b_j-1 and b_j can only change the answers from b_j on, so its return is theirs. Budgets are on
the last axis, from the smallest.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages


def budget_returns(rewards: jax.Array, weights: jax.Array) -> jax.Array:
  """What is won at this budget and the later ones: R_j = Σ_{i >= j} P_i r_i.

  Args:
    rewards: [..., m] of the answers behind each cut.
    weights: [m] P, how likely each budget is.
  Returns:
    [..., m] float32.
  """
  weighted = rewards.astype(jnp.float32) * _like(weights, rewards)
  return jnp.cumsum(weighted[..., ::-1], axis=-1)[..., ::-1]


def earlier_baseline(rewards: jax.Array, weights: jax.Array, *, decay: float) -> jax.Array:
  """What the row had already earned when it thought on, if nothing changed any more.

  V1_j = ( Σ_{i < j} λ^(j - i) r_i / Σ_{i < j} λ^(j - i) ) Σ_{i >= j} P_i, and 0 at the first budget. It is
  known before the thinking that it judges, so it takes nothing from the gradient's mean.

  Args:
    rewards: [..., m] of the answers behind each cut.
    weights: [m] P.
    decay: λ above 0; small ones look at the newest answers only.
  Returns:
    [..., m] float32.
  """
  num = rewards.shape[-1]
  distance = jnp.arange(num)[None] - jnp.arange(num)[:, None]  # [i, j]
  share = jnp.where(distance > 0, decay ** jnp.maximum(distance, 0).astype(jnp.float32), 0)
  share = share / jnp.maximum(share.sum(axis=0, keepdims=True), 1e-30)
  return rewards.astype(jnp.float32) @ share * budget_returns(jnp.ones_like(rewards), weights)


def group_baseline(rewards: jax.Array, weights: jax.Array, groups: jax.Array) -> jax.Array:
  """V2: the mean return of the group at each budget; the own one where no two rows of the group differ.

  Args:
    rewards: [B, m] of the answers behind each cut.
    weights: [m] P.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B, m] float32.
  """
  returns = budget_returns(rewards, weights)
  return returns - jax.vmap(group_advantages.centred, (1, None), 1)(returns, groups)


def budget_relative(
    rewards: jax.Array, weights: jax.Array, groups: jax.Array, *, decay: float
) -> jax.Array:
  """BRPO: returns minus a baseline that trusts the row's own earlier answers more, the more there are.

      A_j = R_j - [ (j - 1) / m V1_j + (m - j + 1) / m V2_j ],    j = 1 .. m

  With one budget it is `groups.centred`.

  Args:
    rewards: [B, m] of the answers behind each cut, means where there are several; NaN for a row that was not
      scored, which has advantages of 0 and is in no baseline.
    weights: [m] P.
    groups: [B] int32 ids in 0..B-1.
    decay: λ of `earlier_baseline` (0.5 in the authors' code).
  Returns:
    [B, m] float32 advantages of what was thought between each budget and the one before.
  Source: AnytimeReasoner, https://arxiv.org/abs/2505.13438, section 3.3; shares and decay as in the authors'
    code. There a group of one has the baseline 0, here its own return.
  """
  chex.assert_rank([rewards, weights, groups], [2, 1, 1])
  num = rewards.shape[-1]
  share = _like(jnp.arange(num) / num, rewards)
  own = earlier_baseline(rewards, weights, decay=decay)
  others = group_baseline(rewards, weights, groups)
  relative = budget_returns(rewards, weights) - share * own - (1 - share) * others
  return jnp.where(jnp.isnan(relative), 0, relative)


def at_budgets(x: jax.Array, index: jax.Array, budgets: tuple[int, ...]) -> jax.Array:
  """At each action, the entry of the first budget that reaches it.

  Args:
    x: [B, m].
    index: [B, T] int32 number of each action in its row, from 0; negative outside.
    budgets: m numbers of actions, growing.
  Returns:
    [B, T]: 0 outside, and behind the last budget.
  """
  which = jnp.searchsorted(jnp.array(budgets), index, side='right')
  found = jnp.take_along_axis(x, jnp.minimum(which, len(budgets) - 1), axis=1)
  return jnp.where((index >= 0) & (which < len(budgets)), found, 0)


def _like(x, array):
  """[m] against [..., m]: ranks are the same."""
  return x.astype(jnp.float32).reshape((1,) * (array.ndim - 1) + x.shape)
