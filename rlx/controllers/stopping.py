"""What samples say of a success rate when their outcomes decided how many there are.

A prompt that is sampled in rounds until it has enough right and wrong rows stops early where it happens to
look good: right / all is biased towards what stops (a rate of .30 reads .322 in up to four rounds of four
rows until there are four of each kind). The share of the first round is not, for that round always comes.
Its mean given all that was counted when the rounds ended is unbiased as well, with less noise:

    p̂ = Σ_paths Π_r C(n_r, s_r) s_1 / n_1  /  Σ_paths Π_r C(n_r, s_r)

over the paths s_1, s_2, .. to the successes that were found which do not stop on their way. With rounds of
one row and k right rows enough it is (k - 1) / (n - 1). Rows of a round are known before it, whatever the
prompt's own outcomes were.

Source: Girshick, Mosteller and Savage, 1946, https://doi.org/10.1214/aoms/1177731018 (a stopped binomial);
rounds in place of single samples are our reading.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln


class Paths(NamedTuple):
  """The ways in which each of P prompts may have come to where it has not stopped yet.

  Such a prompt lacks right rows or wrong ones: it is known by its right rows, below `positives_min`, or by
  its wrong ones, below `negatives_min`: K = positives_min + negatives_min places.
  """

  totals: jax.Array  # [P] int32 rows so far
  ways: jax.Array  # [P, K] float32 logarithms of Σ Π C(n_r, s_r)
  firsts: jax.Array  # [P, K] float32 logarithms of the same with s_1 / n_1 in it


def begin(num_prompts: int, *, positives_min: int, negatives_min: int) -> Paths:
  """Before the first round.

  Args:
    num_prompts: P.
    positives_min: right rows that are enough.
    negatives_min: wrong rows that are enough; one of the two is above 0.
  """
  start = jnp.full((num_prompts, positives_min + negatives_min), -jnp.inf).at[:, 0].set(0)
  return Paths(jnp.zeros(num_prompts, jnp.int32), start, start)


def after_round(
    paths: Paths, counts: jax.Array, successes: jax.Array, *, positives_min: int, negatives_min: int
) -> tuple[Paths, jax.Array]:
  """Takes in a round.

  Args:
    paths: of the prompts before it; those of prompts that have stopped mean nothing.
    counts: [P] int32 rows of the round.
    successes: [P] int32 right rows with it, since the beginning.
    positives_min: as for `begin`.
    negatives_min: as for `begin`.
  Returns:
    The paths behind it, and [P] float32 p̂ if it was the last.
  """
  places = lambda totals: jnp.concatenate([
      jnp.broadcast_to(jnp.arange(positives_min), (totals.shape[0], positives_min)),
      totals[:, None] - jnp.arange(negatives_min)[None],
  ], axis=1)  # [P, K] right rows
  totals = paths.totals + counts
  targets = jnp.concatenate([places(totals), successes[:, None]], axis=1)
  added = targets[:, None] - places(paths.totals)[:, :, None]  # [P, K, K + 1] right rows of the round
  steps = _log_choose(counts[:, None, None], added)
  ways = jax.nn.logsumexp(paths.ways[:, :, None] + steps, axis=1)
  # In its first round a prompt comes from one place, and the share of that round is known.
  share = jnp.log(jnp.maximum(added, 0) / jnp.maximum(counts, 1)[:, None, None])
  first = (paths.totals == 0)[:, None, None]
  before = jnp.where(first, paths.ways[:, :, None] + share, paths.firsts[:, :, None])
  firsts = jax.nn.logsumexp(before + steps, axis=1)
  rates = jnp.exp(firsts[:, -1] - ways[:, -1])
  # Where a prompt has few rows, a place is meant twice: by its right rows and by its wrong ones.
  by_wrong = jnp.arange(positives_min + negatives_min)[None] >= positives_min
  twice = by_wrong & (targets[:, :-1] < positives_min)
  kept = lambda x: jnp.where(twice, -jnp.inf, x[:, :-1])
  return Paths(totals, kept(ways), kept(firsts)), rates


def _log_choose(num: jax.Array, k: jax.Array) -> jax.Array:
  """log C(num, k); -inf where k is outside of 0..num."""
  inside = (k >= 0) & (k <= num)
  k, num = jnp.where(inside, k, 0).astype(jnp.float32), num.astype(jnp.float32)
  value = gammaln(num + 1) - gammaln(k + 1) - gammaln(num - k + 1)
  return jnp.where(inside, value, -jnp.inf)
