"""Credit of turns: what is known of turns as [B, K], and advantages for which time passes by turns.

A turn's action is a segment (`segments.steps`); terms that compare turns with one another are written there.
`turns` is the column of a batch, where what was read has the turn that it answers: the mask says what counts.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.advantages import segments, temporal
from rlx.types import Batch


def at_turns(x: jax.Array, turns: jax.Array, mask: jax.Array, *, num_turns: int) -> jax.Array:
  """The sum of what stands at the tokens of each turn.

  Args:
    x: [B, T].
    turns: [B, T] int32, turn of each token.
    mask: [B, T] bool, True where the token counts.
    num_turns: K; later turns are left out.
  Returns:
    [B, K] float32; 0 for turns that there are not.
  """
  chex.assert_equal_shape([x, turns, mask])
  rows = jnp.arange(x.shape[0])[:, None]
  place = jnp.where(mask & (turns >= 0), turns, num_turns)
  total = jnp.zeros((x.shape[0], num_turns), jnp.float32)
  return total.at[rows, place].add(jnp.where(mask, x, 0).astype(jnp.float32), mode='drop')


def spread(x: jax.Array, turns: jax.Array, mask: jax.Array) -> jax.Array:
  """[B, T]: what is known of turns [B, K] at each of their tokens; 0 where `mask` is False."""
  inside = mask & (turns >= 0) & (turns < x.shape[1])
  return jnp.where(inside, jnp.take_along_axis(x, jnp.clip(turns, 0, x.shape[1] - 1), axis=1), 0)


def beginnings(turns: jax.Array, mask: jax.Array) -> jax.Array:
  """[B, T] bool: True at the first token of each turn's action, where its state is known and nothing said."""
  return segments.firsts(segments.steps(turns, mask))


def around(apply: Callable, params, batch: Batch) -> tuple[jax.Array, jax.Array]:
  """[B, T] each: what the critic says before each action's token, and behind it; 0 behind the last column.

  Args:
    apply: `(params, batch) -> [B, T]`, as `Critic.apply`: what is expected before each token.
    params: of the critic.
    batch: rows with `tokens`, `valid` and `action_mask` [B, T].
  """
  mask = batch['action_mask']
  behind = jnp.pad(mask[:, :-1], ((0, 0), (1, 0)))  # packed, only what is an action is read
  rows = {**batch, 'action_mask': mask | behind, 'valid': batch['valid'] | behind}
  values = apply(params, rows)
  return values, jnp.pad(values[:, 1:], ((0, 0), (0, 1)))


def ends(steps: jax.Array) -> jax.Array:
  """[B, T] bool: True at the last token of each of the segments [B, T], but for those cut at the last column,
  behind which nothing is read."""
  return jnp.pad((steps[:, :-1] >= 0) & (steps[:, :-1] != steps[:, 1:]), ((0, 0), (0, 1)))


def gae_turns(
    rewards: jax.Array, values: jax.Array, turns: jax.Array, mask: jax.Array, *, discount: float,
    lambda_: float,
) -> jax.Array:
  """`temporal.gae` over the turns of each row; every token of a turn has the advantage of the turn.

      δ_k = r_k + γ V_{k+1} - V_k,   A_k = δ_k + γ λ A_{k+1}

  With one token a turn it is `temporal.gae_tokens`; of a single turn it is the bandit's r - V.

  Args:
    rewards: [B, T] reward after each token; those of a turn are summed.
    values: [B, T] value before each token; only that before the first token of a turn is looked at.
    turns: [B, T] int32.
    mask: [B, T] bool, True where the token is an action.
    discount: γ from one turn to the next.
    lambda_: in [0, 1], as in `temporal.gae`.
  Returns:
    [B, T] float32; 0 where `mask` is False.
  Source: VL-DAC, https://arxiv.org/abs/2508.04280; ERA, https://arxiv.org/abs/2510.12693.
  """
  parts = segments.steps(turns, mask)
  first = segments.firsts(parts)
  earned = segments.segment_sum(rewards, parts)
  advantages = temporal.gae_tokens(earned, values, first, discount=discount, lambda_=lambda_)
  return segments.broadcast(advantages, parts)


def of_trajectories(
    rewards: jax.Array, groups: jax.Array, trajectories: jax.Array, *, inner: Callable
) -> jax.Array:
  """A baseline for which an episode counts once in its group, however many rows it has.

  Args:
    rewards: [B] of episodes, the same in all their rows; NaN in rows that were not needed.
    groups: [B] int32.
    trajectories: [B] int32, the episode of each row.
    inner: `(rewards, groups) -> advantages`, such as `groups.normalised`; it sees one row an episode.
  Returns:
    [B] float32: that of the episode in each of its rows; 0 in those that were not needed.
  """
  leaders = group_advantages.join(trajectories)
  first = leaders == jnp.arange(rewards.shape[0])
  advantages = inner(jnp.where(first, rewards, jnp.nan), groups)
  return jnp.where(jnp.isnan(rewards), 0, advantages[leaders])
