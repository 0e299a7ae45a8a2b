"""Rewards without labels: what the samples of a prompt agree on, or how sure the policy is of them.

An answer is a number, equal for rows whose answers are the same tokens (`answers`). Samples vote, and a row
is rewarded for having said what won. Votes weigh the same (`majority`), or by anything: by how much the model
that cast them agrees with itself, where several models answer (`self_consistency`). `self_certainty` asks the
distributions themselves. What is wrong and agreed on is rewarded like what is right: alone, such rewards end
the exploration; see `diversity.py` for one that keeps it up.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.engine import sample
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.types import Annotate, Batch, Key, Models


def majority(task: Task, policy: Speaker, *, answer_tokens: int) -> Annotate:
  """Adds `rewards` [B]: 1 where the completion's answer is the most frequent of its group, else 0.

  The metric `reward/right` says what the task thinks of it; nothing learns from that.

  Args:
    task: for its end tokens, and for the metric.
    policy: says how long completions can be.
    answer_tokens: the answer is so many tokens before the end; 0 for the whole completion.
  Source: TTRL, https://arxiv.org/abs/2504.16084.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    completions, said, has_answer = read(task, policy.decoding, batch, answer_tokens=answer_tokens)
    return {
        **batch,
        'rewards': majority_vote(said, batch['groups'], has_answer),
        'reward/right': task.verify(batch, completions),
    }

  return reward


def read(
    task: Task, decoding: Decoding, batch: Batch, *, answer_tokens: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
  """What the rows of a batch say.

  Args:
    task: for its end tokens.
    decoding: says how long completions can be.
    batch: rows with `tokens, action_mask, prompt_lengths, groups`.
    answer_tokens: as for `majority`.
  Returns:
    Completions [B, C], the answers' numbers [B], and whether a row has one: it ended, and was long enough.
  """
  completions = sample.completions_of(batch, decoding)
  ended = decoding.is_end(completions)
  lengths = jnp.where(ended.any(axis=1), jnp.argmax(ended, axis=1), 0)  # of tokens before the end
  if not answer_tokens:
    return completions, answers(completions, batch['groups']), lengths > 0
  columns = lengths[:, None] - answer_tokens + jnp.arange(answer_tokens)[None]
  final = jnp.take_along_axis(completions, jnp.maximum(columns, 0), axis=1)
  return completions, answers(final, batch['groups']), lengths >= answer_tokens


def answers(tokens: jax.Array, groups: jax.Array) -> jax.Array:
  """[B] int32: one number for the rows of a group with the same tokens, that of the first of them.

  Args:
    tokens: [B, C] int32 answers, padded alike.
    groups: [B] int32 ids.
  """
  chex.assert_rank([tokens, groups], [2, 1])
  alike = lambda same, column: (same & (column[:, None] == column[None]), None)
  same, _ = jax.lax.scan(alike, groups[:, None] == groups[None], tokens.T)
  return jnp.argmax(same, axis=1).astype(jnp.int32)


def votes(said: jax.Array, weights: jax.Array) -> jax.Array:
  """[B] float32: the weight of all votes for the row's own answer.

  Args:
    said: [B] numbers from `answers`.
    weights: [B] of each vote; 0 for a row without an answer.
  """
  chex.assert_equal_shape([said, weights])
  return jax.ops.segment_sum(weights.astype(jnp.float32), said, num_segments=said.shape[0])[said]


def weighted_vote(said: jax.Array, groups: jax.Array, weights: jax.Array) -> jax.Array:
  """[B] float32: 1 where the row's answer has the most votes of its group by weight, else 0.

  Of equals, the answer that an earlier row gave wins. A row whose vote weighs nothing may still agree with
  the winner; where no vote of a group weighs anything, nobody has won.

  Args:
    said: [B] numbers from `answers`.
    groups: [B] int32 ids in 0..B-1.
    weights: [B] not below 0, e.g. `self_consistency` of the model that gave the answer.
  Source: RLCCF, https://arxiv.org/abs/2508.12338.
  """
  chex.assert_equal_shape([said, groups, weights])
  num, total = said.shape[0], votes(said, weights)
  most = jax.ops.segment_max(total, groups, num_segments=num)[groups]
  winners = jnp.where((total == most) & (most > 0), said, num)
  winner = jax.ops.segment_min(winners, groups, num_segments=num)[groups]
  return (said == winner).astype(jnp.float32)


def majority_vote(said: jax.Array, groups: jax.Array, has_answer: jax.Array) -> jax.Array:
  """[B] float32: 1 where the row has the most frequent answer of its group, else 0; rows without one get 0.

  Args:
    said: [B] numbers from `answers`.
    groups: [B] int32 ids in 0..B-1.
    has_answer: [B] bool.
  Source: TTRL, https://arxiv.org/abs/2504.16084.
  """
  return weighted_vote(said, groups, has_answer) * has_answer


def self_consistency(said: jax.Array, groups: jax.Array, agents: jax.Array) -> jax.Array:
  """[B] float32: the share of an agent's samples of a prompt that give its own most frequent answer.

  Args:
    said: [B] numbers from `answers`.
    groups: [B] int32 ids in 0..B-1 of the prompts.
    agents: [B] int32, which model gave the answer.
  Source: RLCCF, https://arxiv.org/abs/2508.12338, the self-consistency score; that it is this share is our
    reading.
  """
  chex.assert_equal_shape([said, groups, agents])
  own = group_advantages.join(groups, agents)
  once = jnp.ones(said.shape, jnp.float32)
  agreeing = votes(group_advantages.join(own, said), once)
  most = jax.ops.segment_max(agreeing, own, num_segments=said.shape[0])[own]
  return most / votes(own, once)


def alike(said: jax.Array, groups: jax.Array, agents: jax.Array) -> jax.Array:
  """[B] float32: 1 for each vote, whoever casts it; arguments as for `self_consistency`."""
  chex.assert_equal_shape([said, groups, agents])
  return jnp.ones(said.shape, jnp.float32)


def self_certainty(logits: jax.Array, mask: jax.Array) -> jax.Array:
  """[B] float32: how far a row's distributions are from saying anything at all, mean_t KL(U || π_t) in nats.

  With V tokens KL(U || π) = log Σ_v exp z_v - mean_v z_v - log V; it is large where some tokens are all but
  excluded, and so hardly falls with length, unlike the entropy.

  Args:
    logits: [B, T, V], finite.
    mask: [B, T] bool, True where the token counts.
  Returns:
    [B]; 0 for a row without a counted token.
  Source: Kang et al., 2025, https://arxiv.org/abs/2502.18581; as a reward: Intuitor,
    https://arxiv.org/abs/2505.19590.
  """
  chex.assert_rank([logits, mask], [3, 2])
  logits = logits.astype(jnp.float32)
  apart = jax.nn.logsumexp(logits, axis=-1) - logits.mean(axis=-1) - jnp.log(logits.shape[-1])
  return jnp.where(mask, apart, 0).sum(axis=1) / jnp.maximum(mask.sum(axis=1), 1)
