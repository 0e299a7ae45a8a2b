"""What was to be expected, from earlier batches: baselines for methods with one sample a prompt.

Each statistic is a few arrays [K], one entry for each key (a prompt, a role, an agent; or one for all), which
a rollout carries in `world`. Three pure functions go with each: `.._init` makes it, `.._update` takes in the
rewards of a batch, the rest read it. Read before you update: a baseline that has seen the sample's own reward
is no longer independent of it. Everything is float32 and keeps its shapes, so that it can be scanned over.

    Mean      exponentially moving mean                     RAE
    Moments   mean and variance of all, or of the latest    scales and normalisation of rewards
    Beta      successes and failures, some of them forgotten   SPO, MSSR

Keys outside 0..K-1 are not taken in; what is read for them means nothing. Nor are rewards of NaN, those of
rows that were not scored: without the row the statistic is the same.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from rlx.advantages.groups import RESIDUE


class Mean(NamedTuple):
  """An exponentially moving mean by key."""

  values: jax.Array  # [K] float32


def mean_init(num_keys: int, *, value: float) -> Mean:
  """A `Mean` that begins at `value` for each of `num_keys` (0 in SPIRAL)."""
  return Mean(jnp.full(num_keys, value, jnp.float32))


def mean_update(state: Mean, keys: jax.Array, rewards: jax.Array, *, decay: float) -> Mean:
  """b <- decay b + (1 - decay) mean of the batch's rewards with the key; keys that do not occur stay.

  SPIRAL updates after each trajectory; here a batch counts once, whatever its size, as in prime-rl.

  Args:
    state: the mean so far.
    keys: [B] int32 in 0..K-1.
    rewards: [B] outcomes.
    decay: in [0, 1], the share of the old value that stays (SPIRAL 0.95).
  Returns:
    The new mean.
  Source: RAE: SPIRAL, https://arxiv.org/abs/2506.24119.
  """
  keys = _scored_keys(keys, rewards, state.values)
  count, total = _counts(state.values, keys, jnp.ones_like(rewards)), _counts(state.values, keys, rewards)
  latest = total / jnp.maximum(count, 1)
  return Mean(jnp.where(count > 0, decay * state.values + (1 - decay) * latest, state.values))


def mean_read(state: Mean, keys: jax.Array) -> jax.Array:
  """[B] float32: the mean of each row's key, e.g. for `groups.against`."""
  return state.values[keys]


class Moments(NamedTuple):
  """Mean and variance by key, as count, mean and summed squares of the distance from it."""

  counts: jax.Array  # [K] float32, samples that count; less than were seen where some are forgotten
  means: jax.Array  # [K] float32
  squares: jax.Array  # [K] float32, Σ (r - mean)²


def moments_init(num_keys: int) -> Moments:
  """`Moments` of nothing yet, for each of `num_keys`."""
  return Moments(*(jnp.zeros(num_keys, jnp.float32) for _ in range(3)))


def moments_update(state: Moments, keys: jax.Array, rewards: jax.Array, *, keep: float) -> Moments:
  """Takes in a batch; before that, what is known of its keys is weakened to the share `keep`.

  With the counts n of the old and m of the new samples, and d the difference of their means:

      mean <- mean + d m / (n + m),    squares <- squares + new squares + d² n m / (n + m)

  Args:
    state: the moments so far.
    keys: [B] int32 in 0..K-1.
    rewards: [B] outcomes.
    keep: in [0, 1]; 1 is the statistics of all that was seen, however it was split into batches.
  Returns:
    The new moments; those of keys that do not occur stay.
  Source: Welford, 1962, https://doi.org/10.1080/00401706.1962.10490022; for batches: Chan et al., 1979.
  """
  keys, rewards = _scored_keys(keys, rewards, state.means), rewards.astype(jnp.float32)
  new = _counts(state.means, keys, jnp.ones_like(rewards))
  new_means = _counts(state.means, keys, rewards) / jnp.maximum(new, 1)
  new_squares = _counts(state.means, keys, jnp.square(rewards - new_means[keys]))
  old = jnp.where(new > 0, keep, 1.0) * state.counts
  squares = jnp.where(new > 0, keep, 1.0) * state.squares
  difference, total = new_means - state.means, jnp.maximum(old + new, jnp.finfo(jnp.float32).tiny)
  return Moments(
      counts=old + new,
      means=jnp.where(new > 0, state.means + difference * (new / total), state.means),
      squares=squares + new_squares + jnp.square(difference) * (old * new / total),
  )


def moments_mean(state: Moments, keys: jax.Array) -> jax.Array:
  """[B] float32: the mean of each row's key; 0 for a key of which nothing was seen."""
  return state.means[keys]


def moments_deviation(state: Moments, keys: jax.Array) -> jax.Array:
  """[B] float32: the unbiased deviation of each row's key, to divide by.

  1 where nothing that differs beyond rounding was seen (so also for fewer than two samples): the first
  success after a thousand failures would otherwise be divided by 0.
  """
  deviations = jnp.sqrt(state.squares / jnp.maximum(state.counts - 1, 1))
  known = (state.counts > 1) & ~(deviations <= RESIDUE * jnp.abs(state.means))
  return jnp.where(known, deviations, 1.0)[keys]


class Beta(NamedTuple):
  """What is known of the chance of success by prompt, as counts of a Beta distribution."""

  successes: jax.Array  # [K] float32, α
  failures: jax.Array  # [K] float32, β


def beta_init(num_prompts: int, *, value: float, strength: float) -> Beta:
  """A `Beta` that expects `value` of each of `num_prompts`, as if from `strength` samples.

  Args:
    num_prompts: K.
    value: in [0, 1], success rate to begin with. (SPO estimates it from a few samples of each prompt: update
      a tracker of small strength with those.)
    strength: above 0; how many samples this is worth.
  Raises:
    ValueError: `value` is no rate, or `strength` is not above 0.
  """
  if not 0 <= value <= 1 or strength <= 0:
    raise ValueError(f'value={value}, strength={strength}; pass a rate in [0, 1] and a strength above 0')
  full = lambda x: jnp.full(num_prompts, x, jnp.float32)
  return Beta(full(strength * value), full(strength * (1 - value)))


def beta_update(state: Beta, prompts: jax.Array, rewards: jax.Array, *, keep: jax.Array | float) -> Beta:
  """Takes in a batch: α <- ρ α + Σ r, β <- ρ β + Σ (1 - r), over the rows of the prompt.

  Args:
    state: the tracker so far.
    prompts: [B] int32 in 0..K-1.
    rewards: [B] outcomes in [0, 1].
    keep: ρ in [0, 1], a number or [B], e.g. of `retention`: the share of the old counts that stays. Of
      several rows of one prompt, the smallest counts, once.
  Returns:
    The new tracker; prompts that do not occur stay.
  Source: SPO, https://arxiv.org/abs/2509.13232, the value tracker; MSSR,
    https://arxiv.org/abs/2512.18215.
  """
  chex.assert_equal_shape([prompts, rewards])
  prompts = _scored_keys(prompts, rewards, state.successes)
  rewards, num = rewards.astype(jnp.float32), state.successes.shape[0]
  keep = jnp.broadcast_to(jnp.asarray(keep, jnp.float32), rewards.shape)
  keep = jnp.minimum(jax.ops.segment_min(keep, prompts, num_segments=num), 1)  # inf where there is no row
  add = lambda old, new: keep * old + _counts(old, prompts, new)
  return Beta(add(state.successes, rewards), add(state.failures, 1 - rewards))


def beta_mean(state: Beta, prompts: jax.Array) -> jax.Array:
  """[B] float32: α / (α + β), the expected reward of each row's prompt, e.g. for `groups.against`.

  SPO and MSSR then normalise over the batch: `groups.globally_normalised(groups.against(r, b))`.
  """
  return state.successes[prompts] / (state.successes + state.failures)[prompts]


def retention(kl: jax.Array, *, half_life: float, low: float, high: float) -> jax.Array:
  """How much of what is known of a prompt is still true: ρ = 2^(-KL / half_life), within [low, high].

  MSSR moves ρ linearly between two bounds with the KL over a target; any such rule can be handed to
  `beta_update`.

  Args:
    kl: [B] how far the policy has moved since the prompt was last seen, in nats.
    half_life: the KL at which half is forgotten.
    low: least ρ.
    high: largest ρ.
  Returns:
    [B] float32.
  Source: SPO, https://arxiv.org/abs/2509.13232, eq. 5.
  """
  return jnp.clip(jnp.exp2(-kl.astype(jnp.float32) / half_life), low, high)


def _scored_keys(keys: jax.Array, rewards: jax.Array, like: jax.Array) -> jax.Array:
  """[B]: the keys, and one beyond the last, which is not taken in, where a reward is NaN."""
  return jnp.where(jnp.isnan(rewards), like.shape[0], keys)


def _counts(like: jax.Array, keys: jax.Array, x: jax.Array) -> jax.Array:
  """[K] float32: the sum of `x` [B] over the rows of each key."""
  return jax.ops.segment_sum(x.astype(jnp.float32), keys, num_segments=like.shape[0])
