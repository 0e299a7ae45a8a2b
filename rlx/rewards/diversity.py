"""Rewards for saying something else than the others: quality times diversity, or a vote ranked by novelty.

Rows are compared inside their group only. `distinct` asks how many of the others differ, by a partition into
classes of meaning, `unlike` by verdicts on pairs; `novelty` asks how far, by similarities. DARLING multiplies
the first into the quality, so that being different and wrong earns nothing. EVOL-RL lets the majority decide
the sign and novelty the size, within bands that never meet.
"""

import chex
import jax
import jax.numpy as jnp

from rlx.advantages import groups as group_advantages
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.rewards import labelfree
from rlx.types import Annotate, Batch, Key, Models


def darling(task: Task, policy: Speaker, *, answer_tokens: int) -> Annotate:
  """Adds `rewards` [B]: what the task pays, times the share of the group that means something else.

  Here rows mean the same where their answers are the same tokens. (The paper trains a classifier for that; it
  would take the place of `labelfree.read`.) The paper's advantage has no deviation: `groups.centred`.

  Args:
    task: its `verify` is the quality.
    policy: says how long completions can be.
    answer_tokens: as for `labelfree.majority`.
  Source: DARLING, https://arxiv.org/abs/2509.02534.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    completions, said, _ = labelfree.read(task, policy.decoding, batch, answer_tokens=answer_tokens)
    quality, diversity = task.verify(batch, completions), distinct(said, batch['groups'])
    return {
        **batch, 'rewards': quality * diversity, 'reward/right': quality, 'reward/diversity': diversity
    }

  return reward


def evol(task: Task, policy: Speaker, *, answer_tokens: int, mean_share: float) -> Annotate:
  """Adds `rewards` [B]: the majority's sign, with a size by novelty (`ranked_by_novelty`).

  Here rows are as similar as the tokens that they are made of (`overlap`); the paper compares embeddings of
  another model. Its clip is wider upward, and it has a bonus on the entropy.

  Args:
    task: for its end tokens and alphabet, and for the metric `reward/right`.
    policy: says how long completions can be.
    answer_tokens: as for `labelfree.majority`.
    mean_share: as for `novelty`.
  Source: EVOL-RL, https://arxiv.org/abs/2509.15194.
  """

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    groups = batch['groups']
    completions, said, has_answer = labelfree.read(task, policy.decoding, batch, answer_tokens=answer_tokens)
    agrees = labelfree.majority_vote(said, groups, has_answer) > 0
    similarity = overlap(completions, policy.decoding.pad_id, task.vocab_size)
    scores = novelty(similarity, agrees, groups, mean_share=mean_share)
    return {
        **batch,
        'rewards': ranked_by_novelty(scores, agrees, has_answer, groups),
        'reward/right': task.verify(batch, completions),
        'reward/novelty': scores,
    }

  return reward


def distinct(classes: jax.Array, groups: jax.Array) -> jax.Array:
  """[B] float32: the share of the other rows of the group that are of another class; 0 for a group of one.

  Args:
    classes: [B] int32, equal where rows mean the same, e.g. `labelfree.answers`.
    groups: [B] int32 ids in 0..B-1.
  Source: DARLING, https://arxiv.org/abs/2509.02534; the share as its normalised diversity is our reading.
  """
  chex.assert_equal_shape([classes, groups])
  once = jnp.ones(groups.shape, jnp.float32)
  alike = labelfree.votes(group_advantages.join(groups, classes), once)
  size = labelfree.votes(groups, once)
  return (size - alike) / jnp.maximum(size - 1, 1)


def unlike(alike: jax.Array, groups: jax.Array) -> jax.Array:
  """[B] float32: the share of the other rows of the group that a classifier of pairs tells from this one.

  Args:
    alike: [B, B] bool, True where two rows are taken to mean the same; only pairs of one group are read, and
      it need not be transitive.
    groups: [B] int32 ids.
  Source: DARLING, https://arxiv.org/abs/2509.02534, as `distinct`.
  """
  chex.assert_rank([alike, groups], [2, 1])
  others = (groups[:, None] == groups[None]) & ~jnp.eye(groups.shape[0], dtype=bool)
  return jnp.sum(others & ~alike, axis=1) / jnp.maximum(others.sum(axis=1), 1)


def overlap(completions: jax.Array, pad_id: int, vocab_size: int) -> jax.Array:
  """[B, B] float32 in [0, 1]: the cosine between the counts of tokens of two rows.

  Args:
    completions: [B, C] int32.
    pad_id: what does not count.
    vocab_size: V.
  """
  counts = jax.nn.one_hot(completions, vocab_size).sum(axis=1).at[:, pad_id].set(0)
  counts /= jnp.maximum(jnp.linalg.norm(counts, axis=1, keepdims=True), 1e-6)
  return jnp.clip(jnp.einsum('iv,jv->ij', counts, counts, precision='highest'), 0, 1)


def novelty(
    similarity: jax.Array, agrees: jax.Array, groups: jax.Array, *, mean_share: float
) -> jax.Array:
  """1 - a mean_j s_ij - (1 - a) max_j s_ij: the mean over the row's own side, the maximum over its group.

  A row that is alone on its side has the mean over its group; one that is alone in its group has 1/2.

  Args:
    similarity: [B, B] in [0, 1]; only pairs of one group are read.
    agrees: [B] bool, the side: True for the majority.
    groups: [B] int32 ids.
    mean_share: a (1/2 in the paper).
  Returns:
    [B] float32 in [0, 1].
  Source: EVOL-RL, https://arxiv.org/abs/2509.15194; means, maxima and lone rows as in the authors' code.
  """
  chex.assert_rank([similarity, agrees, groups], [2, 1, 1])
  others = (groups[:, None] == groups[None]) & ~jnp.eye(groups.shape[0], dtype=bool)
  side = others & (agrees[:, None] == agrees[None])
  side = jnp.where(side.any(axis=1, keepdims=True), side, others)
  mean = jnp.where(side, similarity, 0).sum(axis=1) / jnp.maximum(side.sum(axis=1), 1)
  most = jnp.where(others, similarity, 0).max(axis=1)
  scores = 1 - mean_share * mean - (1 - mean_share) * most
  return jnp.where(others.any(axis=1), scores, 0.5).astype(jnp.float32)


def ranked_by_novelty(
    scores: jax.Array, agrees: jax.Array, has_answer: jax.Array, groups: jax.Array
) -> jax.Array:
  """[B] float32: 1/2 to 1 for the majority, -1 to -1/2 for the others, and -1 without an answer.

  Inside a band the least novel row of the group gets the lower end and the most novel one the upper; where
  all are as novel, all get the middle; a row that is alone in its band gets the upper end.

  Args:
    scores: [B] of `novelty`.
    agrees: [B] bool, True for the majority.
    has_answer: [B] bool.
    groups: [B] int32 ids.
  Source: EVOL-RL, https://arxiv.org/abs/2509.15194, section 3; lone and equal rows as in the authors' code.
  """
  chex.assert_equal_shape([scores, agrees, has_answer, groups])
  num, bands = scores.shape[0], group_advantages.join(groups, agrees, has_answer)
  low = jax.ops.segment_min(scores, bands, num_segments=num)[bands]
  high = jax.ops.segment_max(scores, bands, num_segments=num)[bands]
  alone = labelfree.votes(bands, jnp.ones(num)) == 1
  width = high - low
  place = jnp.where(width > group_advantages.RESIDUE, (scores - low) / jnp.where(width > 0, width, 1), 0.5)
  place = jnp.where(alone, 1.0, place)
  sized = jnp.where(agrees, 0.5, -1.0) + 0.5 * place
  return jnp.where(has_answer, sized, -1.0).astype(jnp.float32)
