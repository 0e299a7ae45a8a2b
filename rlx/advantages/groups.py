"""Advantages from groups: rows that share a prompt (a task, a role) are each other's baseline.

Every function takes rewards [B] and group ids [B] in any order and of any size. A group whose rewards are
all equal gets exactly zero, as does a group of one: float residue never becomes a spike, neither that of
the mean (3 x 0.1 / 3) nor that of rewards whose parts were added in another order (0.1 + 0.3 + 0.5).
(verl 0.9 gives a group of one its raw reward, with mean 0 and deviation 1; TRL divides 0 by a deviation of
0 + eps, which is 0 as here.) Only `against` and `globally_normalised` have another baseline than the
group, and so have something to say about a group of equals.

A reward of NaN says that the row was not scored. Such a row is in no mean, deviation, extreme or count, of
its group or of the batch, and its own advantage is 0 (`against`: NaN): without it the others have the same.

`join` makes one id out of several: groups per prompt and role, task, agent or mode.
"""

import functools

import chex
import jax
import jax.numpy as jnp

RESIDUE = 1e-6  # relative; eight units in the last place of float32


def _sums(x: jax.Array, groups: jax.Array) -> jax.Array:
  """[B]: for each row, the sum of `x` over its group."""
  return jax.ops.segment_sum(x, groups, num_segments=x.shape[0])[groups]


def _known(x: jax.Array) -> tuple[jax.Array, jax.Array]:
  """`x` [B] in float32 with 0 for NaN, and [B] bool, True where it is a number."""
  known = ~jnp.isnan(x)
  return jnp.where(known, x, 0).astype(jnp.float32), known


def _sizes(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """[B]: how many rows of the row's group were scored, as a number to divide by: at least 1."""
  return jnp.maximum(_sums((~jnp.isnan(rewards)).astype(jnp.float32), groups), 1)


@functools.partial(jax.jit, inline=True)
def join(*columns: jax.Array) -> jax.Array:
  """One group id for rows that are equal in every column: per prompt and role, task, agent, mode, turn, ...

  Args:
    columns: each [B] of integers, any numbers.
  Returns:
    [B] int32: the smallest of the rows that are equal to the row in all columns.
  """
  columns = [jnp.asarray(x) for x in columns]
  chex.assert_rank(columns, 1)
  chex.assert_equal_shape(columns)
  order = jnp.lexsort(columns[::-1])  # stable: equal rows stay in order
  changes = [x[order][1:] != x[order][:-1] for x in columns]
  starts = jnp.concatenate([jnp.ones(1, bool), jnp.any(jnp.stack(changes), axis=0)])
  leaders = order[jax.lax.cummax(jnp.where(starts, jnp.arange(order.shape[0]), 0))]
  return jnp.zeros_like(order).at[order].set(leaders).astype(jnp.int32)


@functools.partial(jax.jit, inline=True)
def is_informative(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """[B] bool: True where the row's group holds two rewards that differ beyond rounding: it can teach.

  False for a row that was not scored (NaN).
  """
  chex.assert_rank([rewards, groups], 1)
  num, (rewards, known) = rewards.shape[0], _known(rewards)
  high = jax.ops.segment_max(jnp.where(known, rewards, -jnp.inf), groups, num_segments=num)[groups]
  low = jax.ops.segment_min(jnp.where(known, rewards, jnp.inf), groups, num_segments=num)[groups]
  return known & ~(high - low <= RESIDUE * jnp.maximum(jnp.abs(high), jnp.abs(low)))


def centred(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """Rewards minus the mean of their group: A_i = r_i - mean(r).

  Args:
    rewards: [B] outcomes; NaN for a row that was not scored, here and below.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages; sum to zero in each group.
  Source: Dr. GRPO, https://arxiv.org/abs/2503.20783, section 3.
  """
  chex.assert_rank([rewards, groups], 1)
  known, _ = _known(rewards)
  advantages = known - _sums(known, groups) / _sizes(rewards, groups)
  return jnp.where(is_informative(rewards, groups), advantages, 0)


def normalised(rewards: jax.Array, groups: jax.Array, *, eps: float = 1e-6) -> jax.Array:
  """Centred rewards over the unbiased standard deviation of their group: (r_i - mean(r)) / (std(r) + eps).

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
    eps: added to the deviation (verl 1e-6, TRL 1e-4).
  Returns:
    [B] float32 advantages.
  Source: GRPO, https://arxiv.org/abs/2402.03300, section 4.1.2; the division by n - 1 is that of the
    reference implementations.

  >>> print(normalised(jnp.array([1.0, 0.0, 1.0, 1.0]), jnp.array([0, 0, 1, 1])).round(2))
  [ 0.71 -0.71  0.    0.  ]
  """
  advantages = centred(rewards, groups)
  variance = _sums(jnp.square(advantages), groups) / jnp.maximum(_sizes(rewards, groups) - 1, 1)
  return advantages / (jnp.sqrt(variance) + eps)


def leave_one_out(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """Rewards minus the mean of the *other* rows of their group: A_i = n / (n - 1) (r_i - mean(r)).

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages; 0 for a group of one, which has no others.
  Source: RLOO, https://arxiv.org/abs/2402.14740, eq. 8.
  """
  sizes = _sizes(rewards, groups)
  return centred(rewards, groups) * sizes / jnp.maximum(sizes - 1, 1)


def deviation(x: jax.Array, groups: jax.Array) -> jax.Array:
  """[B] float32: the unbiased standard deviation of `x` [B] in the row's group; 0 for a group of one.

  Entries of NaN are left out.
  """
  known, counts = _known(x)
  spread = jnp.where(counts, _minus_weighted_mean(known, counts.astype(jnp.float32), groups), 0)
  return jnp.sqrt(_sums(jnp.square(spread), groups) / jnp.maximum(_sizes(x, groups) - 1, 1))


def pool_normalised(
    rewards: jax.Array, groups: jax.Array, pools: jax.Array, *, eps: float = 1e-6
) -> jax.Array:
  """Centred rewards over *their own* unbiased deviation in a pool of groups.

  c_i = r_i - mean(r of the group), A_i = c_i / (sqrt(Σ c² / (N - 1)) + eps), the sum over the N rows of the
  pool. Pools of one group each: `normalised`. One pool: REINFORCE++-baseline, which counts rows here; verl
  (`masked_whiten`) counts every token of a row.

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
    pools: [B] int32 ids in 0..B-1, of a task, a role or all; rows of one group are in one pool.
    eps: added to the deviation.
  Returns:
    [B] float32 advantages.
  Source: REINFORCE++, https://arxiv.org/abs/2501.03262 (with baseline); the use of the deviation of the
    centred rewards is that of verl and ms-swift.
  """
  advantages = centred(rewards, groups)
  return advantages / (deviation(jnp.where(jnp.isnan(rewards), jnp.nan, advantages), pools) + eps)


def pool_scaled(
    rewards: jax.Array, groups: jax.Array, pools: jax.Array, *, eps: float = 1e-6
) -> jax.Array:
  """Centred rewards over the unbiased deviation of the *raw rewards* in a pool of groups.

  A_i = (r_i - mean(r of the group)) / (std(r of the pool) + eps). Raw rewards also vary from group to group,
  so advantages are smaller than those of `pool_normalised`. One pool: "Tricks or traps" (Lite PPO), TRL's
  `scale_rewards='batch'`. A pool for each task: QwenLong-L1.5.

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
    pools: [B] int32 ids in 0..B-1.
    eps: added to the deviation (TRL 1e-4).
  Returns:
    [B] float32 advantages.
  Source: Liu et al., 2025, https://arxiv.org/abs/2508.08221; QwenLong-L1.5, https://arxiv.org/abs/2512.12967.
    That the deviation is that of raw rewards is our reading of both (it is what TRL does).
  """
  return centred(rewards, groups) / (deviation(rewards, pools) + eps)


def batch_normalised(rewards: jax.Array, groups: jax.Array, *, eps: float = 1e-6) -> jax.Array:
  """`pool_normalised` with the whole batch as the pool (REINFORCE++-baseline)."""
  return pool_normalised(rewards, groups, jnp.zeros_like(groups), eps=eps)


def batch_scaled(rewards: jax.Array, groups: jax.Array, *, eps: float = 1e-6) -> jax.Array:
  """`pool_scaled` with the whole batch as the pool ("Tricks or traps", TRL's `scale_rewards='batch'`)."""
  return pool_scaled(rewards, groups, jnp.zeros_like(groups), eps=eps)


def globally_normalised(rewards: jax.Array, *, eps: float = 1e-6) -> jax.Array:
  """Rewards minus the mean of the batch, over the deviation of the batch: there are no groups.

  Rows count the same here. OpenRLHF and verl normalise over tokens, so that long rows count more: that is
  `temporal.whiten(temporal.returns_tokens(..))`. Given r - b of a running baseline b, it is the advantage of
  the methods with one sample a prompt.

  Args:
    rewards: [B] outcomes, or what is left of them after a baseline.
    eps: added to the deviation.
  Returns:
    [B] float32 advantages; all 0 where the batch is of equal rewards.
  Source: REINFORCE++, https://arxiv.org/abs/2501.03262; SPO, https://arxiv.org/abs/2509.13232.
  """
  return normalised(rewards, jnp.zeros(rewards.shape, jnp.int32), eps=eps)


def against(rewards: jax.Array, baselines: jax.Array) -> jax.Array:
  """Rewards minus a baseline that comes from elsewhere: A_i = r_i - b_i.

  b_i is the reward of the greedy answer (ReMax), or the running mean of the row's role (RAE, `running.Mean`:
  in SPIRAL's equation the mean takes in the reward before it is subtracted, which shrinks the advantage by
  the decay; prime-rl subtracts first, which leaves the baseline independent of the sample). Neither is a
  comparison in a group: equal rewards do teach something where they are not what was expected.

  Args:
    rewards: [B] outcomes.
    baselines: [B] what was to be expected of each.
  Returns:
    [B] float32 advantages; NaN for a row that was not scored, so that they can be normalised as rewards are.
  Source: ReMax, https://arxiv.org/abs/2310.10505; RAE: SPIRAL, https://arxiv.org/abs/2506.24119.
  """
  chex.assert_rank([rewards, baselines], 1)
  return rewards.astype(jnp.float32) - baselines.astype(jnp.float32)


def length_weighted(rewards: jax.Array, lengths: jax.Array, groups: jax.Array) -> jax.Array:
  """OPO: rewards minus the mean of their group in which long responses count more.

  A_i = r_i - Σ l r / Σ l: the baseline of least variance where the squared norm of a row's gradient grows
  with its length. (A group without a single token has plain centred rewards.)

  Args:
    rewards: [B] outcomes.
    lengths: [B] number of tokens that the policy sampled in each row.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages.
  Source: OPO, https://arxiv.org/abs/2505.23585; as in verl's `opo`.
  """
  chex.assert_equal_shape([rewards, lengths])
  # The baseline moves with the rewards, so it may be taken of centred ones: exactly 0 where those are.
  scored = ~jnp.isnan(rewards)
  weights = jnp.where(scored, lengths, 0).astype(jnp.float32)
  return jnp.where(scored, _minus_weighted_mean(centred(rewards, groups), weights, groups), 0)


def optimal_token_baseline(
    returns: jax.Array, energies: jax.Array, mask: jax.Array, groups: jax.Array
) -> jax.Array:
  """Returns minus, at each place, the baseline of least variance for what was sampled up to there.

      A_t = G_t - Σ_j W_jt G_jt / Σ_j W_jt,    W_t = Σ_{s <= t} w_s

  The sum is over the rows of the group that have a t-th decision. A row that is alone there, because it is
  the longest or its group is of one, has advantage 0; verl leaves it its raw return for a group of one, and
  behind the second longest row where `handle_zero_tail` is set.

  Args:
    returns: [B, T] reward to go at each token; looked at only where `mask` is True.
    energies: [B, T] w >= 0, the squared norm of the token's score, e.g. `score_energies`; times the square of
      the importance weight where there is one.
    mask: [B, T] bool, True where the token is a decision.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B, T] float32 advantages; zero where `mask` is False.
  Source: Optimal token baseline, https://arxiv.org/abs/2602.07078; equation as in verl's
    `optimal_token_baseline` (decisions counted as in its `tir_optimal_token_baseline`).
  """
  chex.assert_equal_shape([returns, energies, mask])
  mask &= ~jnp.isnan(returns)
  num_rows, num_columns = mask.shape
  place = groups[:, None] * num_columns + jnp.cumsum(mask, axis=1) - 1
  # One place more, for all that is not a decision: nothing there differs, so it is 0.
  nowhere = num_rows * num_columns
  flat = lambda x: jnp.append(jnp.where(mask, x, 0).reshape(-1), 0).astype(jnp.float32)
  places = jnp.append(jnp.where(mask, place, nowhere).reshape(-1), nowhere)
  paths = flat(jnp.cumsum(jnp.where(mask, energies, 0).astype(jnp.float32), axis=1))
  advantages = _minus_weighted_mean(centred(flat(returns), places), paths, places)
  return advantages[:-1].reshape(mask.shape)


def score_energies(logprobs: jax.Array, collision: jax.Array) -> jax.Array:
  """The squared norm of the gradient of log π(y) with respect to the logits: 1 - 2 π(y) + Σ_v π(v)².

  Args:
    logprobs: [..., T] log π of the sampled tokens.
    collision: [..., T] Σ_v π(v)², the chance that two samples agree.
  Returns:
    [..., T] float32, not below 0.
  Source: Optimal token baseline, https://arxiv.org/abs/2602.07078; as in verl.
  """
  chex.assert_equal_shape([logprobs, collision])
  return jnp.maximum(1 - 2 * jnp.exp(logprobs.astype(jnp.float32)) + collision.astype(jnp.float32), 0)


def mean_normalised(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """MaxRL: centred rewards over the mean of their group: A_i = (r_i - mean(r)) / mean(r).

  With rewards of 0 and 1 it follows log p = -Σ_k (1 - p)^k / k, up to an order that grows with the group,
  where plain centring follows p, the first term. Rare successes weigh about 1 / p.

  Args:
    rewards: [B] outcomes, not below 0, usually 0 or 1.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages; 0 where the mean of the group is not above 0.
  Source: MaxRL, https://arxiv.org/abs/2602.02710; as in prime-rl.
  """
  means = _sums(_known(rewards)[0], groups) / _sizes(rewards, groups)
  return jnp.where(means <= 0, 0, centred(rewards, groups) / jnp.where(means <= 0, 1, means))


def pass_at_k_centred(rewards: jax.Array, groups: jax.Array, *, k: int) -> jax.Array:
  """Each sample's mean pass@k over all sets of k that it is in, minus that of all sets.

  With c of n right and m = C(n - c, k) / C(n, k), the share of sets without a right sample:

      A = m if right,    m - C(n - c - 1, k - 1) / C(n - 1, k - 1) if wrong

  which is (right - c / n) C(n - c - 1, k - 1) / C(n - 1, k - 1): the centred success, times the chance that
  the other k - 1 of a wrong sample are wrong as well. At k = 1 it is the centred success. (PKPO's reward
  for a sample, times n / k, minus its mean, is the same.)

  Args:
    rewards: [B] outcomes; above 0 is right.
    groups: [B] int32 ids in 0..B-1.
    k: size of the sets, at least 1.
  Returns:
    [B] float32 advantages; 0 in groups of fewer than k.
  Raises:
    ValueError: k is below 1.
  Source: Chen et al., 2025, https://arxiv.org/abs/2508.10751, section 2.4; PKPO:
    https://arxiv.org/abs/2505.15201.
  """
  return _pass_at_k(rewards, groups, k)[0]


def pass_at_k(rewards: jax.Array, groups: jax.Array, *, k: int) -> jax.Array:
  """`pass_at_k_centred` over sqrt(m (1 - m)), the deviation of pass@k over the sets of k.

  See there for the arguments. At k = 1 that is the deviation over n, not over n - 1 as in `normalised`.

  Source: Chen et al., 2025, https://arxiv.org/abs/2508.10751, section 2.4 (analytical derivation).
  """
  advantages, misses = _pass_at_k(rewards, groups, k)
  variance = misses * (1 - misses)
  return jnp.where(variance <= 0, 0, advantages / jnp.sqrt(jnp.where(variance <= 0, 1, variance)))


def _pass_at_k(rewards, groups, k):
  if k < 1:
    raise ValueError(f'k={k} is not a number of samples; pass k >= 1')
  right = jnp.sign(jnp.maximum(rewards.astype(jnp.float32), 0))  # 1 or 0, and a NaN stays one
  size, wrong = _sizes(rewards, groups), _sums((right == 0).astype(jnp.float32), groups)
  others_miss = jnp.where(size >= k, 1.0, 0.0)
  for j in range(1, k):  # a factor is 0 where there are not enough wrong ones
    others_miss *= jnp.maximum(wrong - j, 0) / jnp.maximum(size - j, 1)
  return centred(right, groups) * others_miss, others_miss * wrong / size


def best_margin(rewards: jax.Array, groups: jax.Array) -> jax.Array:
  """What the group's maximum would lose without the sample: r_max - r_second for the best, 0 for the others.

  Where two share the maximum, nobody has any. verl divides by the group's deviation as well, unless told not
  to, and raises an error for a group of one, which has 0 here.

  Args:
    rewards: [B] outcomes.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] float32 advantages, not below 0.
  Source: https://arxiv.org/abs/2503.19595; as in verl's `grpo_passk`.
  """
  chex.assert_rank([rewards, groups], 1)
  num, scored = rewards.shape[0], ~jnp.isnan(rewards)
  highest = lambda x: jax.ops.segment_max(x, groups, num_segments=num)[groups]
  rewards = jnp.where(scored, rewards, -jnp.inf).astype(jnp.float32)
  best = scored & (rewards == highest(rewards))
  second = highest(jnp.where(best, -jnp.inf, rewards))
  second = jnp.where(jnp.isneginf(second), rewards, second)  # a group of one, or of equals
  margin = jnp.where(scored, rewards - second, 0)
  alone = best & (_sums(best.astype(jnp.float32), groups) == 1)
  counts = alone & (margin > RESIDUE * jnp.maximum(jnp.abs(rewards), jnp.abs(second)))
  return jnp.where(counts, margin, 0)


def _minus_weighted_mean(x: jax.Array, weights: jax.Array, groups: jax.Array) -> jax.Array:
  """[B]: `x` minus its weighted mean in the group; `x` as it is where no row of the group has a weight."""
  total = _sums(weights, groups)
  return x - _sums(weights * x, groups) / jnp.where(total > 0, total, 1)


def pooled(
    rewards: jax.Array, success_rates: jax.Array, successes: jax.Array, attempts: jax.Array, *,
    eps: float = 1e-6,
) -> jax.Array:
  """Rewards against mean and deviation of *all* samples of the prompt, of which these rows are a choice.

      A_i = (r_i - p̂) / (sqrt(p (1 - p)) + eps),    p = successes / attempts

  A group that was balanced has a mean of 1/2 whatever the prompt; its baseline would be another's. The mean
  is the unbiased p̂, for p is biased where prompts stop when they have enough; the scale is that of the
  share p, which is never 0 where there are both kinds.

  Args:
    rewards: [B] 0 or 1.
    success_rates: [B] p̂ of the row's prompt, such as `controllers/stopping.py` finds it.
    successes: [B] right samples of the row's prompt, whether they were kept or not.
    attempts: [B] all samples of it.
    eps: added to the deviation.
  Returns:
    [B] float32 advantages; 0 where all samples were right or all wrong.
  Source: Reinforce-Ada, https://arxiv.org/abs/2510.04996, as in the authors' code but for p̂: there p is both.
  """
  chex.assert_equal_shape([rewards, success_rates, successes, attempts])
  rates = successes.astype(jnp.float32) / jnp.maximum(attempts, 1).astype(jnp.float32)
  informative = (successes > 0) & (successes < attempts) & ~jnp.isnan(rewards)
  deviations = jnp.sqrt(jnp.where(informative, rates * (1 - rates), 1))
  return jnp.where(informative, (rewards.astype(jnp.float32) - success_rates) / (deviations + eps), 0)
