"""DAPO: GRPO with a higher upper clip, token-level mean, dynamic sampling and a soft length penalty; no KL.

Dynamic sampling: the rollout over-samples to a fixed number of rows, and the step trains on `train_rows` of
them, whole groups with both right and wrong answers first. Shapes are static; where too few groups are mixed,
the rest of the rows weighs nothing. (The paper samples again until the batch is full.)

Source: Yu et al., 2025, https://arxiv.org/abs/2503.14476, eq. 8 to 13.
"""

import dataclasses

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups
from rlx.algorithms.grpo import grpo
from rlx.engine.speaker import Speaker
from rlx.losses import anchors
from rlx.rewards import shaping
from rlx.rollout import select
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def dapo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    *,
    clip_low: float,
    clip_high: float,
    train_rows: int,
    max_tokens: int,
    overlong_buffer: int,
) -> Algorithm:
  """Decoupled clip and dynamic sampling policy optimisation.

  Args:
    rollout: yields more rows than `train_rows`, in whole groups of consecutive rows.
    reward: adds `rewards` [B]; groups count as mixed by these, before the length penalty.
    policy: scores rows; its parameters are trained.
    clip_low: the ratio counts down to 1 - clip_low (0.2 in the paper).
    clip_high: the ratio counts up to 1 + clip_high (0.28 in the paper).
    train_rows: rows that are trained on; a multiple of the group size.
    max_tokens: the longest response without the full penalty of -1.
    overlong_buffer: how many tokens before `max_tokens` the penalty starts.
  """
  parent = grpo(
      rollout,
      reward,
      policy,
      anchors.no_kl(),
      clip_low=clip_low,
      clip_high=clip_high,
      entropy_coef=0.0,
      reduction=reductions.token_mean,
  )

  def penalised_reward(models: Models, batch: Batch, key: Key) -> Batch:
    batch = reward(models, batch, key)
    mixed = groups.is_informative(batch['rewards'], batch['groups'])
    penalty = shaping.soft_overlong(
        batch['action_mask'].sum(axis=-1), max_tokens=max_tokens, buffer=overlong_buffer
    )
    scored = ~jnp.isnan(batch['rewards'])
    everywhere = lambda x: jnp.full(x.shape, jnp.nanmean(jnp.where(scored, x.astype(jnp.float32), jnp.nan)))
    return {
        **batch,
        'mixed': mixed,
        'rewards': batch['rewards'] + penalty,
        'reward/before_selection': everywhere(batch['rewards']),
        'sampling/mixed_fraction': everywhere(mixed),
    }

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = select.first_rows(batch, batch['mixed'], num_rows=train_rows)
    batch = parent.advantage(models, batch, key)
    counted = batch['action_mask'] & batch['mixed'][:, None]
    return {**batch, 'weights': reductions.token_mean(counted)}

  return dataclasses.replace(parent, reward=penalised_reward, advantage=advantage)
