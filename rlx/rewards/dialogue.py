"""Rewards of whole dialogues, whose speakers share them: what was reached, at what cost, in which words."""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.turns import SUCCESS
from rlx.errors import ConfigError, at_least
from rlx.types import Annotate, Batch, Key, Models


def optima(base: Speaker, *, token_cost: float, readability: float) -> Annotate:
  """Adds `rewards` [B]: solved or not, less what was said, and more where it reads as the base model would.

      R(τ) = R_task(τ) - λ_token #tokens(τ) / max_group #tokens + λ_loss / R_loss(τ)

  #tokens are those that all seats said in the episode, and R_loss is their perplexity under the base model,
  so that its inverse lies in (0, 1]. (What function of the language-model loss it is, is our reading.) All
  seats of an episode get the same, and rows that said nothing stay without a reward.

  Args:
    base: what words are read by, `models['base']`: the policy as it was before.
    token_cost: λ_token, not below 0.
    readability: λ_loss, not below 0.
  Source: Optima, https://arxiv.org/abs/2410.08115.
  """
  at_least(0, token_cost=token_cost, readability=readability)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    solved = batch.get(f'episode/{SUCCESS}')
    if solved is None:
      raise ConfigError("reward 'dialogue.optima': these rows are of no episodes; take seats.episodes")
    logprobs, _ = base.score(models['base'], batch)
    tokens, perplexity = spent(batch, logprobs)
    most = jax.ops.segment_max(tokens, batch['groups'], num_segments=tokens.shape[0])[batch['groups']]
    total = solved - token_cost * tokens / jnp.maximum(most, 1) + readability / perplexity
    return {
        **batch, 'rewards': jnp.where(jnp.isnan(batch['rewards']), jnp.nan, total),
        'dialogue/tokens': tokens, 'dialogue/perplexity': perplexity,
    }

  return reward


def spent(batch: Batch, logprobs: jax.Array) -> tuple[jax.Array, jax.Array]:
  """[B] tokens that all seats of the row's episode said, and [B] their perplexity.

  Args:
    batch: rows with `action_mask` [B, T] and `trajectories` [B], the same for the seats of an episode.
    logprobs: [B, T] of the tokens.
  """
  mask, episodes = batch['action_mask'], batch['trajectories']
  of_episode = lambda x: jax.ops.segment_sum(x, episodes, num_segments=episodes.shape[0])[episodes]
  tokens = of_episode(mask.sum(axis=1).astype(jnp.float32))
  surprise = of_episode(jnp.where(mask, -logprobs, 0).sum(axis=1))
  return tokens, jnp.exp(surprise / jnp.maximum(tokens, 1))
