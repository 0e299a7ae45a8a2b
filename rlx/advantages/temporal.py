"""Advantages along time: how much better than the critic expected things went from each decision on.

`gae` is for dense time (environment steps), `gae_tokens` for rows of tokens in which only some are decisions;
all else comes in the same two forms. They are the recursion x_t = δ_t + decay_t x_{t+1}. Returns, the targets
of the critic, are advantages plus values. Nothing here stops gradients: call them where none are taken (the
`advantage` slot).
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from rlx.errors import between


def gae(
    rewards: jax.Array, values: jax.Array, discounts: jax.Array, *, lambda_: float | jax.Array
) -> jax.Array:
  """Generalised advantage estimates: exponentially weighted sums of temporal differences.

  δ_t = r_t + γ_t V_{t+1} - V_t,  A_t = δ_t + γ_t λ A_{t+1}. A step that is cut off by a time limit is not
  terminal: its discount is γ and the value behind it counts, but the next step is then another episode, so
  end the row there.

  Args:
    rewards: [..., T] reward after each action.
    values: [..., T + 1] value before each action, and after the last (the bootstrap).
    discounts: [..., T] γ (1 - terminated).
    lambda_: in [0, 1]; 0 is the temporal difference, 1 the return minus the value. Or an array that
      broadcasts against [..., T], e.g. one number a row.
  Returns:
    [..., T] float32 advantages.
  Source: Schulman et al., 2015, https://arxiv.org/abs/1506.02438, eq. 16.

  >>> rewards, values = jnp.array([0.0, 0.0, 1.0]), jnp.array([0.5, 0.5, 0.5, 0.0])
  >>> gae(rewards, values, jnp.array([1.0, 1.0, 0.0]), lambda_=1.0).tolist()  # the return minus the value
  [0.5, 0.5, 0.5]
  """
  chex.assert_equal_shape([rewards, discounts])
  chex.assert_shape(values, (*rewards.shape[:-1], rewards.shape[-1] + 1))
  values = values.astype(jnp.float32)
  deltas = rewards + discounts * values[..., 1:] - values[..., :-1]
  return accumulated(deltas, discounts * lambda_)


def gae_tokens(
    rewards: jax.Array, values: jax.Array, mask: jax.Array, *, discount: float, lambda_: float | jax.Array
) -> jax.Array:
  """`gae` over the decisions of each row: time passes only at tokens that the policy sampled.

  The token after a decision is the next *masked* token, however many observation tokens stand between;
  after the last one the episode is over and the value is 0.

  Args:
    rewards: [B, T] reward after each token; looked at only where `mask` is True.
    values: [B, T] value before each token; looked at only where `mask` is True.
    mask: [B, T] bool, True where the token is a decision.
    discount: γ per decision.
    lambda_: in [0, 1], as in `gae`; an array is [B, 1] or [B, T].
  Returns:
    [B, T] float32 advantages; zero where `mask` is False.
  Source: Schulman et al., 2015, https://arxiv.org/abs/1506.02438, eq. 16.
  """
  chex.assert_rank(mask, 2)
  chex.assert_equal_shape([rewards, values, mask])
  between(0, 1, discount=discount, lambda_=lambda_)
  values = jnp.where(mask, values, 0).astype(jnp.float32)
  deltas = jnp.where(mask, rewards + discount * _at_next(values, mask) - values, 0)
  return jnp.where(mask, accumulated(deltas, jnp.where(mask, discount * lambda_, 1.0)), 0)


def gae_episodes(
    rewards: jax.Array, values: jax.Array, next_values: jax.Array, terminated: jax.Array,
    truncated: jax.Array, *, discount: float, lambda_: float,
) -> jax.Array:
  """`gae` over rows in which one episode follows the other.

  δ_t = r_t + γ (1 - terminated_t) V(s'_t) - V(s_t), and the sum stops where an episode does. What follows a
  truncated step counts by its value, for it would have gone on; `next_values` are therefore of the
  observation that the step led to, not of the one that the next episode begins with.

  Args:
    rewards: [..., T] reward after each action.
    values: [..., T] value before each action.
    next_values: [..., T] value of where the action led.
    terminated: [..., T] bool, nothing comes after the step.
    truncated: [..., T] bool, the episode was cut off after the step.
    discount: γ per step.
    lambda_: in [0, 1], as in `gae`.
  Returns:
    [..., T] float32 advantages.
  Source: Schulman et al., 2015, https://arxiv.org/abs/1506.02438, eq. 16; Pardo et al., 2018,
    https://arxiv.org/abs/1712.00378 (time limits).
  """
  chex.assert_equal_shape([rewards, values, next_values, terminated, truncated])
  between(0, 1, discount=discount, lambda_=lambda_)
  bootstrap = jnp.where(terminated, 0, next_values).astype(jnp.float32)
  deltas = rewards + discount * bootstrap - values.astype(jnp.float32)
  return accumulated(deltas, jnp.where(terminated | truncated, 0, discount * lambda_))


def lengths_to_lambda(lengths: jax.Array, *, alpha: float) -> jax.Array:
  """λ = 1 - 1 / (α l): the weights λ^t of the differences then sum to α l, in long and short rows alike.

  Rows that are too short for it (α l < 1) get 0, the plain temporal difference.

  Args:
    lengths: [B] number of decisions in each row.
    alpha: how much of a row counts, above 0 (VAPO 0.05).
  Returns:
    [B] float32 in [0, 1).
  Source: VAPO, https://arxiv.org/abs/2504.05118 (length-adaptive GAE); the lower end is our reading.
  """
  return 1 - 1 / jnp.maximum(alpha * lengths.astype(jnp.float32), 1)


def gae_tokens_adaptive(
    rewards: jax.Array, values: jax.Array, mask: jax.Array, *, discount: float, alpha: float
) -> jax.Array:
  """`gae_tokens` with the λ of each row's own length, 1 - 1 / (α l).

  It is for the policy. VAPO's critic learns from λ = 1: `lambda_returns_tokens`.

  Args:
    rewards: [B, T] reward after each token.
    values: [B, T] value before each token.
    mask: [B, T] bool, True where the token is a decision.
    discount: γ per decision.
    alpha: as in `lengths_to_lambda`.
  Returns:
    [B, T] float32 advantages; zero where `mask` is False.
  Source: VAPO, https://arxiv.org/abs/2504.05118 (length-adaptive GAE).
  """
  lambda_ = lengths_to_lambda(mask.sum(axis=1), alpha=alpha)
  return gae_tokens(rewards, values, mask, discount=discount, lambda_=lambda_[:, None])


def returns(rewards: jax.Array, discounts: jax.Array) -> jax.Array:
  """Discounted sums of what is still to come: G_t = r_t + γ_t G_{t+1}, [..., T] float32; 0 behind the end.

  Args:
    rewards: [..., T] reward after each action.
    discounts: [..., T] γ (1 - terminated).
  """
  chex.assert_equal_shape([rewards, discounts])
  return accumulated(rewards, discounts)


def returns_tokens(rewards: jax.Array, mask: jax.Array, *, discount: float) -> jax.Array:
  """`returns` over the decisions of each row, [B, T] float32; zero where `mask` is False.

  Args:
    rewards: [B, T] reward after each token; looked at only where `mask` is True.
    mask: [B, T] bool, True where the token is a decision.
    discount: γ per decision.
  """
  chex.assert_equal_shape([rewards, mask])
  to_go = accumulated(jnp.where(mask, rewards, 0), jnp.where(mask, discount, 1.0))
  return jnp.where(mask, to_go, 0)


def paid_at_end(rewards: jax.Array, mask: jax.Array) -> jax.Array:
  """[B, T] float32: the outcome of each row as the reward of its last decision, 0 at all other tokens.

  Args:
    rewards: [B] outcomes.
    mask: [B, T] bool, True where the token is a decision.
  """
  chex.assert_rank([rewards, mask], [1, 2])
  is_last = mask & (jnp.cumsum(mask, axis=1) == mask.sum(axis=1, keepdims=True))
  return jnp.where(is_last, rewards[:, None], 0).astype(jnp.float32)


def lambda_returns(
    rewards: jax.Array, values: jax.Array, discounts: jax.Array, *, lambda_: float | jax.Array
) -> jax.Array:
  """Targets of the critic: G_t = r_t + γ_t [(1 - λ) V_{t+1} + λ G_{t+1}], and G_T = V_T.

  Args:
    rewards: [..., T] reward after each action.
    values: [..., T + 1] value before each action, and after the last (the bootstrap).
    discounts: [..., T] γ (1 - terminated).
    lambda_: in [0, 1]; 0 looks one step ahead, 1 to the end.
  Returns:
    [..., T] float32: `gae` plus the values.
  Source: Sutton and Barto, 2018, http://incompleteideas.net/book/the-book-2nd.html, section 12.1.
  """
  return gae(rewards, values, discounts, lambda_=lambda_) + values[..., :-1]


def lambda_returns_tokens(
    rewards: jax.Array, values: jax.Array, mask: jax.Array, *, discount: float, lambda_: float | jax.Array
) -> jax.Array:
  """`lambda_returns` over the decisions of each row, [B, T] float32; arguments as of `gae_tokens`."""
  advantages = gae_tokens(rewards, values, mask, discount=discount, lambda_=lambda_)
  return advantages + jnp.where(mask, values, 0)


class VTrace(NamedTuple):
  """What `vtrace` knows of each decision."""

  targets: jax.Array  # [..., T] float32, of the critic
  advantages: jax.Array  # [..., T] float32, of the policy gradient; the clipped ratio is in them


def vtrace(
    rewards: jax.Array,
    values: jax.Array,
    discounts: jax.Array,
    ratios: jax.Array,
    *,
    lambda_: float,
    clip_rho: float,
    clip_c: float,
    clip_pg: float | None = None,
) -> VTrace:
  """Targets and advantages of a policy from steps that another one took.

      v_t = V_t + δ_t + γ_t c_t (v_{t+1} - V_{t+1}),    A_t = ρ_t (r_t + γ_t v_{t+1} - V_t)
      δ_t = ρ_t (r_t + γ_t V_{t+1} - V_t),    ρ_t = min(ratio, clip_rho),    c_t = λ min(ratio, clip_c)

  With ratios of 1 and both clips at 1 the targets are `lambda_returns`. Which value function they lead to is
  up to `clip_rho`; `clip_c` is only about how fast; `clip_pg`, of the ρ in A alone, about neither.

  Args:
    rewards: [..., T] reward after each action.
    values: [..., T + 1] value before each action, and after the last (the bootstrap).
    discounts: [..., T] γ (1 - terminated).
    ratios: [..., T] probability of the action under the policy that learns, over that under the other one.
    lambda_: in [0, 1]; 1 in the paper's experiments.
    clip_rho: ρ bar, at least `clip_c`.
    clip_c: c bar.
    clip_pg: ρ bar of the policy gradient, as in the authors' code; `clip_rho` if not given.
  Returns:
    A `VTrace`.
  Source: IMPALA, https://arxiv.org/abs/1802.01561, eq. 1, remarks 1 and 2, section 4.2.
  """
  chex.assert_shape(values, (*rewards.shape[:-1], rewards.shape[-1] + 1))
  return _vtrace(
      rewards, values[..., :-1], values[..., 1:], discounts, jnp.zeros(rewards.shape, bool), ratios,
      lambda_=lambda_, clip_rho=clip_rho, clip_c=clip_c, clip_pg=clip_pg,
  )


def vtrace_episodes(
    rewards: jax.Array,
    values: jax.Array,
    next_values: jax.Array,
    terminated: jax.Array,
    truncated: jax.Array,
    ratios: jax.Array,
    *,
    discount: float,
    lambda_: float,
    clip_rho: float,
    clip_c: float,
    clip_pg: float | None = None,
) -> VTrace:
  """`vtrace` over rows in which one episode follows the other; ends are those of `gae_episodes`.

  Args:
    rewards: [..., T] reward after each action.
    values: [..., T] value before each action.
    next_values: [..., T] value of where the action led.
    terminated: [..., T] bool, nothing comes after the step.
    truncated: [..., T] bool, the episode was cut off after the step.
    ratios: [..., T] as in `vtrace`.
    discount: γ per step.
    lambda_: as in `vtrace`.
    clip_rho: as in `vtrace`.
    clip_c: as in `vtrace`.
    clip_pg: as in `vtrace`.
  Returns:
    A `VTrace`.
  Source: IMPALA, https://arxiv.org/abs/1802.01561, eq. 1, remarks 1 and 2, section 4.2.
  """
  discounts = jnp.where(terminated, 0.0, discount)
  return _vtrace(
      rewards, values, next_values, discounts, terminated | truncated, ratios, lambda_=lambda_,
      clip_rho=clip_rho, clip_c=clip_c, clip_pg=clip_pg,
  )


def _vtrace(
    rewards, values, next_values, discounts, ended, ratios, *, lambda_, clip_rho, clip_c, clip_pg
) -> VTrace:
  """All [..., T]; no correction crosses a step that `ended` an episode."""
  chex.assert_equal_shape([rewards, values, next_values, discounts, ended, ratios])
  values, next_values, ratios = (x.astype(jnp.float32) for x in (values, next_values, ratios))
  rho = jnp.minimum(ratios, clip_rho)
  deltas = rho * (rewards + discounts * next_values - values)
  corrections = accumulated(deltas, jnp.where(ended, 0, discounts * lambda_ * jnp.minimum(ratios, clip_c)))
  later = jnp.concatenate([corrections[..., 1:], jnp.zeros_like(corrections[..., :1])], axis=-1)
  next_targets = next_values + jnp.where(ended, 0, later)
  weights = _clipped_for_policy(ratios, clip_rho, clip_pg)
  return VTrace(values + corrections, weights * (rewards + discounts * next_targets - values))


def _clipped_for_policy(ratios, clip_rho, clip_pg):
  return jnp.minimum(ratios, clip_rho if clip_pg is None else clip_pg)


def vtrace_tokens(
    rewards: jax.Array,
    values: jax.Array,
    mask: jax.Array,
    ratios: jax.Array,
    *,
    discount: float,
    lambda_: float,
    clip_rho: float,
    clip_c: float,
    clip_pg: float | None = None,
) -> VTrace:
  """`vtrace` over the decisions of each row; after the last one the episode is over and the value is 0.

  Args:
    rewards: [B, T] reward after each token; looked at, as are the next two, only where `mask` is True.
    values: [B, T] value before each token.
    mask: [B, T] bool, True where the token is a decision.
    ratios: [B, T] as in `vtrace`.
    discount: γ per decision.
    lambda_: as in `vtrace`.
    clip_rho: as in `vtrace`.
    clip_c: as in `vtrace`.
    clip_pg: as in `vtrace`.
  Returns:
    A `VTrace`; zero where `mask` is False.
  Source: IMPALA, https://arxiv.org/abs/1802.01561, eq. 1.
  """
  chex.assert_equal_shape([rewards, values, mask, ratios])
  rewards, values, ratios = (jnp.where(mask, x, 0).astype(jnp.float32) for x in (rewards, values, ratios))
  rho = jnp.minimum(ratios, clip_rho)
  deltas = rho * (rewards + discount * _at_next(values, mask) - values)
  decays = jnp.where(mask, discount * lambda_ * jnp.minimum(ratios, clip_c), 1.0)
  targets = jnp.where(mask, values + accumulated(deltas, decays), 0)
  weights = _clipped_for_policy(ratios, clip_rho, clip_pg)
  return VTrace(targets, weights * (rewards + discount * _at_next(targets, mask) - values))


def _at_next(x: jax.Array, mask: jax.Array) -> jax.Array:
  """[B, T] float32: `x` at the first masked token behind each token; 0 where there is none.

  `x` is 0 where `mask` is False.
  """
  upcoming = accumulated(x, jnp.where(mask, 0.0, 1.0))  # at the first masked token from here on
  return jnp.pad(upcoming[:, 1:], ((0, 0), (0, 1)))


def accumulated(x: jax.Array, decays: jax.Array) -> jax.Array:
  """[..., T] float32: y_t = x_t + decay_t y_{t+1}, from the last to the first; nothing follows the last."""
  x, decays = (jnp.moveaxis(a, -1, 0).astype(jnp.float32) for a in (x, decays))
  step = lambda later, now: (now[0] + now[1] * later,) * 2
  _, y = jax.lax.scan(step, jnp.zeros_like(x[0]), (x, decays), reverse=True)
  return jnp.moveaxis(y, 0, -1)


def whiten(advantages: jax.Array, mask: jax.Array, *, eps: float = 1e-8) -> jax.Array:
  """Advantages with mean 0 and variance 1 over all counted tokens of the batch.

  The variance divides by n - 1, as every deviation here, in TRL and in verl (`masked_whiten`).

  Args:
    advantages: [B, T].
    mask: [B, T] bool, True where the token counts.
    eps: added to the variance, so that equal advantages become 0.
  Returns:
    [B, T] float32; zero where `mask` is False.
  """
  chex.assert_equal_shape([advantages, mask])
  count = jnp.maximum(mask.sum(), 1)
  mean = jnp.sum(jnp.where(mask, advantages, 0)) / count
  centred = jnp.where(mask, advantages - mean, 0)
  return centred * jax.lax.rsqrt(jnp.sum(jnp.square(centred)) / jnp.maximum(count - 1, 1) + eps)
