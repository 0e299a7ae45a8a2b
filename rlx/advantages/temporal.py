"""Advantages along time: how much better than the critic expected things went from each decision on.

`gae` is for dense time (environment steps), `gae_tokens` for rows of tokens in which only some are decisions.
Both are the recursion x_t = δ_t + decay_t x_{t+1}. Returns, the targets of the critic, are advantages plus
values. Nothing here stops gradients: call them where none are taken (the `advantage` slot).
"""

import chex
import jax
import jax.numpy as jnp


def gae(rewards: jax.Array, values: jax.Array, discounts: jax.Array, *, lambda_: float) -> jax.Array:
  """Generalised advantage estimates: exponentially weighted sums of temporal differences.

  δ_t = r_t + γ_t V_{t+1} - V_t,  A_t = δ_t + γ_t λ A_{t+1}. A step that is cut off by a time limit is not
  terminal: its discount is γ and the value behind it counts, but the next step is then another episode, so
  end the row there.

  Args:
    rewards: [..., T] reward after each action.
    values: [..., T + 1] value before each action, and after the last (the bootstrap).
    discounts: [..., T] γ (1 - terminated).
    lambda_: in [0, 1]; 0 is the temporal difference, 1 the return minus the value.
  Returns:
    [..., T] float32 advantages.
  Source: Schulman et al., 2015, https://arxiv.org/abs/1506.02438, eq. 16.
  """
  chex.assert_equal_shape([rewards, discounts])
  chex.assert_shape(values, (*rewards.shape[:-1], rewards.shape[-1] + 1))
  values = values.astype(jnp.float32)
  deltas = rewards + discounts * values[..., 1:] - values[..., :-1]
  return _accumulated(deltas, discounts * lambda_)


def gae_tokens(
    rewards: jax.Array, values: jax.Array, mask: jax.Array, *, discount: float, lambda_: float
) -> jax.Array:
  """`gae` over the decisions of each row: time passes only at tokens that the policy sampled.

  The token after a decision is the next *masked* token, however many observation tokens stand between;
  after the last one the episode is over and the value is 0.

  Args:
    rewards: [B, T] reward after each token; looked at only where `mask` is True.
    values: [B, T] value before each token; looked at only where `mask` is True.
    mask: [B, T] bool, True where the token is a decision.
    discount: γ per decision.
    lambda_: in [0, 1], as in `gae`.
  Returns:
    [B, T] float32 advantages; zero where `mask` is False.
  Source: Schulman et al., 2015, https://arxiv.org/abs/1506.02438, eq. 16.
  """
  chex.assert_rank(mask, 2)
  chex.assert_equal_shape([rewards, values, mask])
  values = jnp.where(mask, values, 0).astype(jnp.float32)
  upcoming = _accumulated(values, jnp.where(mask, 0.0, 1.0))  # value of the first decision from here on
  next_values = jnp.pad(upcoming[:, 1:], ((0, 0), (0, 1)))
  deltas = jnp.where(mask, rewards + discount * next_values - values, 0)
  return jnp.where(mask, _accumulated(deltas, jnp.where(mask, discount * lambda_, 1.0)), 0)


def _accumulated(x: jax.Array, decays: jax.Array) -> jax.Array:
  """[..., T] float32: y_t = x_t + decay_t y_{t+1}, from the last to the first; nothing follows the last."""
  x, decays = (jnp.moveaxis(a, -1, 0).astype(jnp.float32) for a in (x, decays))
  step = lambda later, now: (now[0] + now[1] * later,) * 2
  _, y = jax.lax.scan(step, jnp.zeros_like(x[0]), (x, decays), reverse=True)
  return jnp.moveaxis(y, 0, -1)


def whiten(advantages: jax.Array, mask: jax.Array, *, eps: float = 1e-8) -> jax.Array:
  """Advantages with mean 0 and variance 1 over all counted tokens of the batch.

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
  return centred * jax.lax.rsqrt(jnp.sum(jnp.square(centred)) / count + eps)
