"""What is known of each prompt: one table that every controller reads, and one update that writes it.

A table is a few arrays [N], one entry for each row of the data set, which a rollout carries in `world`. Which
prompts are drawn (`prompts.py`) and how many samples each gets (`allocation.py`) are pure functions of it.
`update` takes in the rewards of a batch by the batch's column `rows`; samples of one prompt are summed, so
neither their order nor how they are split into groups matters. It keeps shapes and dtypes, so it can be
scanned over, and a population of tables can be mapped over.

Success is told twice: since the beginning (`tries`, `successes`), and with forgetting (`recent`), because the
policy changes. `recent` counts observations alone. A prior is added where it is read, so that what is
forgotten decays to the prior and not to nothing.
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from rlx.advantages.running import Beta, beta_init, beta_update


class Table(NamedTuple):
  """Statistics by prompt."""

  tries: jax.Array  # [N] int32, samples so far
  successes: jax.Array  # [N] float32, the sum of their rewards
  recent: Beta  # [N] float32 each, successes and failures, of which a share is forgotten each time
  best: jax.Array  # [N] float32, the highest mean reward of a batch; 0 before the first
  last_seen: jax.Array  # [N] int32, step of the latest batch; -1 before the first
  entropies: jax.Array  # [N] float32, latest mean entropy of the prompt's rows, in nats; 0 until measured
  gradient_norms: jax.Array  # [N] float32, latest mean norm of the prompt's rows; 1 until measured


def init(num_prompts: int) -> Table:
  """A table of `num_prompts` of which nothing is known."""
  zeros = jnp.zeros(num_prompts, jnp.float32)
  return Table(
      tries=jnp.zeros(num_prompts, jnp.int32),
      successes=zeros,
      recent=Beta(zeros, zeros),
      best=zeros,
      last_seen=jnp.full(num_prompts, -1, jnp.int32),
      entropies=zeros,
      gradient_norms=jnp.ones(num_prompts, jnp.float32),
  )


def update(
    table: Table,
    rows: jax.Array,
    rewards: jax.Array,
    step: jax.Array | int,
    *,
    keep: float,
    mask: jax.Array | None = None,
    entropies: jax.Array | None = None,
    gradient_norms: jax.Array | None = None,
) -> Table:
  """Takes in a batch; prompts that do not occur stay as they are.

      recent <- keep recent + (Σ r, Σ (1 - r))

  Args:
    table: the statistics so far.
    rows: [B] int32 numbers of the prompts; rows outside 0..N-1, such as held-out ones, are left out.
    rewards: [B] outcomes in [0, 1].
    step: train step of the batch.
    keep: λ in [0, 1], the share of the recent counts that stays each time the prompt is seen; 1 forgets
      nothing.
    mask: [B] bool, True where the row counts (e.g. the column `scored`); all rows if not given.
    entropies: [B] mean entropy of each row's actions, in nats; those in the table stay if not given.
    gradient_norms: [B] norm of each row's gradient; those in the table stay if not given.
  Returns:
    The new table.
  Source: temporal discounting as in MoPPS, https://arxiv.org/abs/2507.04632: α <- λ α + (1 - λ) α₀ + Σ r is
    the same with the prior α₀ kept apart; that prompts which are not drawn forget nothing is our reading.
  """
  chex.assert_rank([rows, rewards], 1)
  chex.assert_equal_shape([rows, rewards])
  num, rewards = table.tries.shape[0], rewards.astype(jnp.float32)
  counts = (rows >= 0) & (rows < num) & (True if mask is None else mask)
  rows = jnp.where(counts, rows, num)  # what is beyond the last prompt is dropped, a reward of NaN with it
  total = lambda x: jax.ops.segment_sum(x, rows, num_segments=num)
  new = total(jnp.ones_like(rows, jnp.int32))
  mean = lambda x: total(x.astype(jnp.float32)) / jnp.maximum(new, 1).astype(jnp.float32)
  latest = lambda old, x: old if x is None else jnp.where(new > 0, mean(x), old)
  return Table(
      tries=table.tries + new,
      successes=table.successes + total(rewards),
      recent=beta_update(table.recent, rows, rewards, keep=keep),
      best=jnp.maximum(table.best, mean(rewards)),
      last_seen=jnp.where(new > 0, jnp.asarray(step, jnp.int32), table.last_seen),
      entropies=latest(table.entropies, entropies),
      gradient_norms=latest(table.gradient_norms, gradient_norms),
  )


def rates(table: Table, *, unseen: float) -> jax.Array:
  """[N] float32: recent share of successes; `unseen` for a prompt that was never tried."""
  counts = table.recent.successes + table.recent.failures
  return jnp.where(counts > 0, table.recent.successes / jnp.where(counts > 0, counts, 1), unseen)


def progress(table: Table) -> jax.Array:
  """[N] float32: recent success rate minus that since the beginning: above 0 where the policy gets better.

  A fast average minus a slow one. It is 0 for a prompt that was seen once or never, and everywhere where
  `update` forgets nothing.

  Source: Kanitscheider et al., 2021, https://arxiv.org/abs/2106.14876, there with two exponential averages;
    our reading.
  """
  always = table.successes / jnp.maximum(table.tries, 1).astype(jnp.float32)
  return rates(table, unseen=0.0) - always


def posterior(table: Table, *, value: float, strength: float) -> Beta:
  """What is believed of each success rate: a Beta distribution; for a prompt not seen it is the prior.

  Args:
    table: the statistics.
    value: mean of the prior, above 0 and below 1.
    strength: how many samples the prior is worth, above 0; value 1/2 and strength 2 are uniform.
  Returns:
    α and β, [N] each.
  Raises:
    ValueError: `value` is not between 0 and 1, or `strength` is not above 0.
  """
  if not 0 < value < 1:
    raise ValueError(f'value={value} leaves a prior no doubt; pass a rate above 0 and below 1')
  prior = beta_init(table.tries.shape[0], value=value, strength=strength)
  return jax.tree.map(jnp.add, prior, table.recent)


def posterior_mean(table: Table, *, value: float, strength: float) -> jax.Array:
  """[N] float32: α / (α + β); arguments as for `posterior`."""
  alpha, beta = posterior(table, value=value, strength=strength)
  return alpha / (alpha + beta)


def posterior_variance(table: Table, *, value: float, strength: float) -> jax.Array:
  """[N] float32: α β / ((α + β)² (α + β + 1)), how unsure the rate is; arguments as for `posterior`."""
  alpha, beta = posterior(table, value=value, strength=strength)
  total = alpha + beta
  return alpha * beta / (jnp.square(total) * (total + 1))
