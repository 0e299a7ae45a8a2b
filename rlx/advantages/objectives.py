"""Several rewards for one row: what is weighed against what, before or after they are normalised.

Rewards are [B, M], a column for each objective (right, well formed, short, ...). Added first, an objective
that varies more drowns the others, and different mixtures with the same sum become the same advantage;
normalised first, each has deviation 1 in its group, and a weight means what it says. An objective that does
not vary in a group contributes exactly nothing there; see `groups.py`, also for groups of one. A reward of
NaN says that the objective does not apply to the row: it is in no mean or deviation of the objective and adds
nothing to the row's sum. A row to which none applies was not scored, and counts for nothing.
"""

from collections.abc import Sequence

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages


def sum_then_normalise(
    rewards: jax.Array, groups: jax.Array, *, weights: Sequence[float], eps: float = 1e-6
) -> jax.Array:
  """GRPO of the weighted sum: `groups.normalised` of Σ_m w_m r_im.

  For another baseline, hand `weighted_sum` to another function of `groups.py`.

  Args:
    rewards: [B, M] outcomes by objective.
    groups: [B] int32 ids in 0..B-1.
    weights: w, one number for each objective.
    eps: added to the deviation.
  Returns:
    [B] float32 advantages.
  Raises:
    ValueError: there are not as many weights as objectives.
  Source: as in TRL's `sum_then_normalize`.
  """
  return group_advantages.normalised(weighted_sum(rewards, weights=weights), groups, eps=eps)


def normalise_then_sum(
    rewards: jax.Array, groups: jax.Array, *, weights: Sequence[float], eps: float = 1e-6
) -> jax.Array:
  """The weighted sum of each objective's own GRPO advantage: Σ_m w_m (r_im - mean(r_m)) / (std(r_m) + eps).

  Multiplying an objective by a positive number changes nothing (but for `eps`).

  Args:
    rewards: [B, M] outcomes by objective.
    groups: [B] int32 ids in 0..B-1.
    weights: w, one number for each objective.
    eps: added to the deviation.
  Returns:
    [B] float32 advantages.
  Raises:
    ValueError: there are not as many weights as objectives.
  Source: MO-GRPO, https://arxiv.org/abs/2509.22047 (weights of 1); GDPO, https://arxiv.org/abs/2601.05242,
    before its batch-wise step.
  """
  chex.assert_rank([rewards, groups], [2, 1])
  normalised = lambda column: group_advantages.normalised(column, groups, eps=eps)
  return weighted_sum(jax.vmap(normalised, in_axes=1, out_axes=1)(rewards), weights=weights)


def gdpo(rewards: jax.Array, groups: jax.Array, *, weights: Sequence[float], eps: float = 1e-6) -> jax.Array:
  """GDPO: `normalise_then_sum` over its deviation in the batch, so that the scale does not depend on M.

  Its mean over rows is 0 as it is. Rows count the same here, as in TRL; verl (`gdpo`) takes mean and
  deviation over all tokens: that is `temporal.whiten`.

  Args:
    rewards: [B, M] outcomes by objective.
    groups: [B] int32 ids in 0..B-1.
    weights: w, one number for each objective.
    eps: added to the deviations, of groups and batch (verl 1e-6, TRL 1e-4).
  Returns:
    [B] float32 advantages; all 0 where no objective varies in any group.
  Raises:
    ValueError: there are not as many weights as objectives.
  Source: GDPO, https://arxiv.org/abs/2601.05242; equation as in TRL's `normalize_then_sum`.
  """
  advantages = normalise_then_sum(rewards, groups, weights=weights, eps=eps)
  of_scored = jnp.where(jnp.isnan(rewards).all(axis=1), jnp.nan, advantages)
  return advantages / (group_advantages.deviation(of_scored, jnp.zeros_like(groups)) + eps)


def weighted_sum(rewards: jax.Array, *, weights: Sequence[float]) -> jax.Array:
  """Σ_m w_m r_im, over the objectives that apply to the row.

  Args:
    rewards: [B, M] outcomes by objective.
    weights: w, one number for each objective.
  Returns:
    [B] float32; NaN where no objective applies.
  Raises:
    ValueError: there are not as many weights as objectives.
  """
  chex.assert_rank(rewards, 2)
  if len(weights) != rewards.shape[1]:
    raise ValueError(f'{len(weights)} weights for {rewards.shape[1]} objectives; pass one for each')
  # Not a matrix product: its precision is the platform's, and equal rewards should stay equal.
  known = ~jnp.isnan(rewards)
  parts = jnp.where(known, rewards, 0).astype(jnp.float32) * jnp.asarray(weights, jnp.float32)[None]
  return jnp.where(known.any(axis=1), parts.sum(axis=1), jnp.nan)
