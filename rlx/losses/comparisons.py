"""From log-probs of tokens to what a comparison knows of itself, by the names that losses ask for.

Rows [2N, T] are pairs, the better answer of each before the worse one. A *level* makes one number of the
log-ratios of an answer's tokens; a *divergence* says what the policy is held by (reverse KL, which is DPO's,
changes nothing). `known` is what losses of `preference.py` may then ask for. What is no sum over rows
(`shift`, orders) is found by `survey` in the whole minibatch, with constants in the batch's columns.
"""

from collections.abc import Callable, Mapping
import inspect

import chex
import jax
import jax.numpy as jnp

from rlx.errors import between
from rlx.names import fill
from rlx.types import Batch

LOG_2 = 0.6931471805599453


def sides(x: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Rows [2N, ...] as those of the better and of the worse answers, [N, ...] each."""
  return x[0::2], x[1::2]


def both(chosen: jax.Array, rejected: jax.Array) -> jax.Array:
  """The inverse of `sides`."""
  return jnp.stack([chosen, rejected], axis=1).reshape(-1, *chosen.shape[1:])


def right(chosen: jax.Array, rejected: jax.Array) -> jax.Array:
  """[N] 1 where the better answer is ahead, 0 where it is behind, and 1/2 where rounding alone tells."""
  margin = chosen - rejected
  return jnp.where(jnp.abs(margin) < _TIED, 0.5, (margin > 0).astype(jnp.float32))


_TIED = 1e-4  # nats: a policy that is its reference is not right in any pair, nor wrong


# --- levels: [2N, T] -> [2N] --------------------------------------------------------------------------------


def summed(tokens: jax.Array, mask: jax.Array) -> jax.Array:
  """Σ_t over the answer: the log-ratio of the answer as a whole.

  Args:
    tokens: [2N, T] log-ratios or log-probs of tokens.
    mask: [2N, T] bool, True where the token counts.
  """
  return jnp.where(mask, tokens, 0).sum(axis=1)


def averaged(tokens: jax.Array, mask: jax.Array) -> jax.Array:
  """Σ_t / |y|: free of length; DPO with it is TRL's `sigmoid_norm`. 0 for an answer without a token."""
  return summed(tokens, mask) / jnp.maximum(mask.sum(axis=1), 1)


def desensitised(tokens: jax.Array, mask: jax.Array, *, alpha: float) -> jax.Array:
  """Σ_t, in which the tokens behind the length of the shorter answer of the pair weigh α: LD-DPO.

  Args:
    tokens: [2N, T] log-ratios of tokens.
    mask: [2N, T] bool.
    alpha: in [0, 1]; at 1 this is `summed`.
  Source: Liu et al., 2024, https://arxiv.org/abs/2409.06411.
  """
  between(0, 1, alpha=alpha)
  shorter = jnp.minimum(*sides(mask.sum(axis=1)))
  place = jnp.cumsum(mask, axis=1)
  weights = jnp.where(place <= jnp.repeat(shorter, 2)[:, None], 1.0, alpha)
  return summed(tokens * weights, mask)


# --- divergences: x = log π / ref -> f'(exp x) --------------------------------------------------------------


def reverse_kl(x: jax.Array) -> jax.Array:
  """x: KL(π || ref), DPO's (its constant 1 cancels)."""
  return x


def forward_kl(x: jax.Array) -> jax.Array:
  """-exp(-x): KL(ref || π). The exponent is held within ±20.

  Source, of all: f-DPO, Wang et al., 2023, https://arxiv.org/abs/2309.16240, table 1.
  """
  return -_held_exp(-x)


def jensen_shannon(x: jax.Array) -> jax.Array:
  """log 2 + x - log(1 + exp x): bounded by log 2 above, like the reverse KL far below."""
  return LOG_2 + x - jax.nn.softplus(x)


def alpha_divergence(x: jax.Array, *, alpha: float) -> jax.Array:
  """(1 - exp(-α x)) / α: x as α goes to 0, 1 + `forward_kl` at 1. With log-probs for x, AlphaPO's reward.

  Args:
    x: [...] log-ratios.
    alpha: in (0, 1] for a divergence; AlphaPO takes other signs too; not 0.
  Source: f-DPO, as above; AlphaPO, Gupta et al., 2025, https://arxiv.org/abs/2501.03884.
  """
  if not alpha:
    raise ValueError('alpha=0 is the reverse KL: take reverse_kl')
  return -jnp.expm1(jnp.clip(-alpha * x, -20, 20)) / alpha


def _held_exp(x: jax.Array) -> jax.Array:
  return jnp.exp(jnp.clip(x, -20, 20))


# --- weights of pairs ---------------------------------------------------------------------------------------


def even(logprobs: jax.Array) -> jax.Array:
  """[N] ones: every pair counts the same; of log-probs [2N, T]."""
  return jnp.ones(logprobs.shape[0] // 2)


def on_policy(logprobs: jax.Array, collision: jax.Array, mask: jax.Array) -> jax.Array:
  """[N] w(y_w) w(y_l), at most 1, w(y) = exp( Σ_t [log π(y_t) - log Σ_v π(v)²] / |y| ): WPO.

  How likely the policy would have said the two itself: what is far from it teaches it less.

  Args:
    logprobs: [2N, T] of tokens under the policy.
    collision: [2N, T] Σ_v π(v)².
    mask: [2N, T] bool.
  Source: Zhou et al., 2024, https://arxiv.org/abs/2406.11827, sampled alignment; TRL's `use_weighting`.
  """
  aligned = averaged(logprobs - jnp.log(jnp.maximum(collision, 1e-30)), mask)
  return jnp.exp(jnp.minimum(sum(sides(aligned)), 0))


# --- what losses may ask for --------------------------------------------------------------------------------


def known(
    batch: Batch, logprobs: jax.Array, reference_logprobs: jax.Array, *, level: Callable,
    divergence: Callable,
) -> dict[str, jax.Array]:
  """What losses may ask for by name, [N] each; the columns of the batch that start with `pair_` as well.

  Args:
    batch: rows [2N, T] with `action_mask`.
    logprobs: [2N, T] of tokens under the policy.
    reference_logprobs: [2N, T] under the reference; zeros where there is none.
    level: of the tokens' log-ratios.
    divergence: of the answers'.
  Returns:
    `chosen, rejected`; `chosen_logprobs, rejected_logprobs` (summed), `chosen_lengths, rejected_lengths` in
    tokens.
  """
  chex.assert_equal_shape([logprobs, reference_logprobs, batch['action_mask']])
  mask = batch['action_mask']
  ratios = fill(level, {'tokens': logprobs - reference_logprobs, 'mask': mask})
  found = {}
  columns = {'': divergence(ratios), '_logprobs': summed(logprobs, mask), '_lengths': mask.sum(axis=1)}
  for ending, x in columns.items():
    found[f'chosen{ending}'], found[f'rejected{ending}'] = sides(x)
  pairs = {name.removeprefix(_PAIR): sides(x)[0] for name, x in batch.items() if name.startswith(_PAIR)}
  return {**found, **pairs}


def asked(loss: Callable) -> set[str]:
  """The names that a loss asks for, those of losses inside of it too."""
  names = {p.name for p in inspect.signature(loss).parameters.values() if p.kind is not p.KEYWORD_ONLY}
  inside = getattr(loss, 'keywords', {}).values()
  return names.union(*(asked(x) for x in inside if callable(x)))


_PAIR = 'pair_'  # columns of rows that say something of their pair, at both of its rows


def survey(found: Mapping[str, jax.Array], reference_margin: jax.Array, names: set[str]) -> Batch:
  """Columns [2N] of what losses ask for and is no sum over rows; constants.

  Args:
    found: as `known`, of the whole minibatch.
    reference_margin: [N] log ref(y_w) - log ref(y_l).
    names: that the loss asks for.
  """
  chosen, rejected = found['chosen'], found['rejected']
  columns = {}
  if 'shift' in names:
    columns['shift'] = jnp.full(chosen.shape, (chosen.mean() + rejected.mean()) / 2)
  if 'margin_below' in names:
    margin = chosen - rejected + reference_margin  # of the policy's log-probs
    columns['margin_below'] = jnp.sort(reference_margin)[_places(margin)] - reference_margin
  if {'chosen_partner', 'rejected_partner'} & names:
    columns['chosen_partner'] = jnp.sort(rejected)[_places(chosen)]
    columns['rejected_partner'] = jnp.sort(chosen)[_places(rejected)]
  held = jax.lax.stop_gradient
  return {f'{_PAIR}{name}': held(both(x, x)) for name, x in columns.items()}


SURVEYED = frozenset({'shift', 'margin_below', 'chosen_partner', 'rejected_partner'})


def _places(x: jax.Array) -> jax.Array:
  """[N] int32, the place of each entry among all, from the smallest on."""
  return jnp.argsort(jnp.argsort(x))
