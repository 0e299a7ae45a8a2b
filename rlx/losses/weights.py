"""How much a row counts: weights [B] from what its group, its reward or its task says about it.

They multiply advantages or the weights of a reduction, and are constants. A weight that depends on the
outcomes of a group takes what `advantages/groups.py` takes: rewards [B] and group ids [B] in any order. As
there, a reward of NaN says that the row was not scored, and the row is in no mean; where a weight does not
look at rewards, `scored` says which were.
(The rarity weight of CalibRL is |A| of a normalised group, and part of `policy.calibrl`.)
"""

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages


def _group_mean(x: jax.Array, groups: jax.Array) -> jax.Array:
  """[B]: for each row, the mean of `x` over the entries of its group that are no NaN; 0 without any."""
  known = ~jnp.isnan(x)
  sums = lambda x: jax.ops.segment_sum(x.astype(jnp.float32), groups, num_segments=groups.shape[0])[groups]
  return sums(jnp.where(known, x, 0)) / jnp.maximum(sums(known), 1)


def _of_scored(x: jax.Array, scored: jax.Array | None) -> jax.Array:
  """`x` [B] in float32, NaN where a row was not scored."""
  x = x.astype(jnp.float32)
  return x if scored is None else jnp.where(scored, x, jnp.nan)


def equal(rewards: jax.Array) -> jax.Array:
  """1 for every row.

  Args:
    rewards: [B] outcomes, whatever they are.
  """
  return jnp.ones(rewards.shape, jnp.float32)


def informative(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """B / (B - M) for rows of groups with a difference, 0 for the M rows of the others; B counts scored rows.

  The mean over all rows is then the mean over those that teach, whatever their number.

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
  Source: GPG's α, https://arxiv.org/abs/2504.02546; verl counts rows of non-zero score in place of those of
    groups with a difference.
  """
  teaches = group_advantages.is_informative(rewards, groups)
  return teaches * jnp.sum(~jnp.isnan(rewards)) / jnp.maximum(teaches.sum(), 1).astype(jnp.float32)


def medium_difficulty(rewards: jax.Array, groups: jax.Array, *, scale: float) -> jax.Array:
  """4 c p (1 - p) with p the group's pass rate: c at p = 1/2, 0 where all or none succeed.

  Args:
    rewards: [B] 0 or 1.
    groups: [B] int32 ids in 0..B-1.
    scale: c, the largest weight.
  Source: Observe-R1, https://arxiv.org/abs/2505.12432; as in the authors' code.
  """
  chex.assert_rank([rewards, groups], 1)
  pass_rates = _group_mean(rewards, groups)
  return 4 * scale * pass_rates * (1 - pass_rates)


def data_hardness(
    similarities: jax.Array, groups: jax.Array, scored: jax.Array | None = None
) -> jax.Array:
  """σ(δ_i) / σ(mean δ) with δ = 1 - similarity: above 1 for answers further from the demonstration.

  Args:
    similarities: [B] of a response to the demonstration for its prompt, in [-1, 1].
    groups: [B] int32 ids in 0..B-1.
    scored: [B] bool, False for rows that count for nothing; all count if not given.
  Source: DR-IRL, https://arxiv.org/abs/2503.18991, α^D; read in a summary of the paper.
  """
  chex.assert_rank([similarities, groups], 1)
  distances = 1 - _of_scored(similarities, scored)
  return _numbers(jax.nn.sigmoid(distances) / jax.nn.sigmoid(_group_mean(distances, groups)))


def responsiveness(gaps: jax.Array, groups: jax.Array, *, deviation_max: float) -> jax.Array:
  """σ(mean of the reward gaps without outliers) / σ(their mean), one number a group.

  An outlier has (gap - mean)² > τ. The gap is the demonstration's reward over the response's. `data_hardness`
  times this is the weight of the paper's GRPO-S.

  Args:
    gaps: [B] differences of rewards.
    groups: [B] int32 ids in 0..B-1.
    deviation_max: τ, in squared units of the reward.
  Source: DR-IRL, https://arxiv.org/abs/2503.18991, α^M; read in a summary of the paper. Which of the two
    rewards is subtracted is our reading.
  """
  chex.assert_rank([gaps, groups], 1)
  gaps = gaps.astype(jnp.float32)
  mean = _group_mean(gaps, groups)
  kept = jnp.square(gaps - mean) <= deviation_max
  filtered = _group_mean(jnp.where(kept, gaps, jnp.nan), groups)
  share = _group_mean(kept.astype(jnp.float32), groups)
  return jax.nn.sigmoid(jnp.where(share > 0, filtered, mean)) / jax.nn.sigmoid(mean)


def scaled_by_difficulty(
    similarities: jax.Array, gaps: jax.Array, groups: jax.Array, scored: jax.Array | None = None, *,
    deviation_max: float,
) -> jax.Array:
  """α^D α^M, above 1 where answers are far from the demonstration, and the policy's reward below its.

  Both are measured against the whole batch, so that prompts differ.

  Args:
    similarities: as for `data_hardness`.
    gaps: as for `responsiveness`.
    groups: [B] int32 ids in 0..B-1.
    scored: as for `data_hardness`.
    deviation_max: as for `responsiveness`.
  Source: DR-IRL, https://arxiv.org/abs/2503.18991, the weight of GRPO-S; read in a summary of the paper, and
    that means are those of the batch is our reading.
  """
  batch = jnp.zeros_like(groups)
  of_group, of_batch = (jax.nn.sigmoid(_group_mean(_of_scored(gaps, scored), ids)) for ids in (groups, batch))
  responsive = responsiveness(_of_scored(gaps, scored), groups, deviation_max=deviation_max)
  return data_hardness(similarities, batch, scored) * responsive * of_group / of_batch


def small_targets(
    sizes: jax.Array, scored: jax.Array | None = None, *, weight_min: float, weight_max: float
) -> jax.Array:
  """Inverse sizes over their mean, held within bounds: a small target on the screen is a hard one.

  Args:
    sizes: [B] area of the target over that of the screen, above 0.
    scored: as for `data_hardness`.
    weight_min: of the largest targets.
    weight_max: of the smallest targets.
  Source: after GUI-G1, https://arxiv.org/abs/2505.15810, whose difficulty is the relative size of the box;
    the formula is our reading.
  """
  chex.assert_rank(sizes, 1)
  inverse = 1 / _of_scored(sizes, scored)
  return _numbers(jnp.clip(inverse / jnp.nanmean(inverse), weight_min, weight_max))


def _numbers(weights: jax.Array) -> jax.Array:
  """0 for NaN: a row that was not scored weighs nothing."""
  return jnp.where(jnp.isnan(weights), 0, weights)


def balanced(probabilities: jax.Array, rewards: jax.Array) -> tuple[jax.Array, jax.Array]:
  """(α, β) = (max, min) of P / mean P and R / mean R: weights of the surrogate and of the KL penalty.

  A row that the policy finds likely or the reward model good learns more; one that is both is held more.

  Args:
    probabilities: [B] of the responses under the policy; normalised by length or not is the caller's choice.
    rewards: [B] of the reward model, positive on average; NaN for a row that was not scored.
  Returns:
    [B] weight of the surrogate and [B] weight of the KL to the old policy, 0 for a row that was not scored.
  Source: VeriRL, https://arxiv.org/abs/2508.18462; read in a summary of the paper.
  """
  chex.assert_rank([probabilities, rewards], 1)
  known = [_of_scored(x, ~jnp.isnan(rewards)) for x in (probabilities, rewards)]
  shares = [jax.lax.stop_gradient(_numbers(x / jnp.nanmean(x))) for x in known]
  return jnp.maximum(*shares), jnp.minimum(*shares)
