"""Baselines of episodes with several seats, beside those of a group, which are of a prompt and a seat.

What a seat can expect is another number for each: who moves first, who hides, who judges. Compared with all
seats together, everything that the worse seat does is bad, and that is noise in every gradient.
"""

import jax
import jax.numpy as jnp

from rlx.advantages import segments


def by_seat(
    token_rewards: jax.Array, turns: jax.Array, mask: jax.Array, seats: jax.Array, *, discount: float
) -> jax.Array:
  """Turns compared with the turns of the same seat: discounted returns to go, normalised by role.

      R_k = Σ_j≥k γ^(j-k) r_j,   A_k = (R_k - mean_seat(R)) / std_seat(R)

  Args:
    token_rewards: [B, T] reward at the last token of each turn.
    turns: [B, T] int32.
    mask: [B, T] bool, True where the token is an action.
    seats: [B] int32, seat of each row.
    discount: γ from one turn of the seat to its next.
  Returns:
    [B, T] float32; their mean over the turns of a seat is 0.
  Source: MARS, https://arxiv.org/abs/2510.15414, as its abstract has it: advantages of turns, normalised for
    each agent.
  """
  return _compared(token_rewards, turns, mask, seats[:, None], discount)


def of_all_seats(
    token_rewards: jax.Array, turns: jax.Array, mask: jax.Array, *, discount: float
) -> jax.Array:
  """`by_seat`, but compared with the turns of all seats together."""
  return _compared(token_rewards, turns, mask, jnp.zeros((1, 1), jnp.int32), discount)


def _compared(rewards, turns, mask, keys, discount) -> jax.Array:
  parts = segments.steps(turns, mask)
  returns = segments.returns_to_go(rewards, parts, discount=discount)
  return segments.term(
      returns, parts, baseline=segments.key_mean(returns, parts, keys),
      scale=segments.key_deviation(returns, parts, keys) + 1e-6,
  )
