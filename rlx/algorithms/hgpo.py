"""HGPO: every group is sampled in each mode; the mode's token learns which mode, all tokens which row.

    A_t = intra(r) + α inter(r) [t is the mode's token]

`intra` and `inter` are in `advantages/modes.py`. What the forced mode teaches is to choose it: its token is
an action like any other, with the policy's own probability, so that after training the policy begins with
the mode that it thinks best.

Source: LHRM, https://arxiv.org/abs/2505.14631. There rewards are those of a preference model; details of the
two normalisations are our reading.
"""

import dataclasses

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import modes as mode_advantages
from rlx.algorithms.grpo import grpo
from rlx.engine.speaker import Speaker
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def hgpo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    inter_coef: float,
    margins: tuple[float, ...],
) -> Algorithm:
  """`grpo` with advantages of modes.

  Metrics: `mode/hybrid_accuracy`, the share of prompts whose likeliest mode is the one that pays best, and
  `mode/best_i`, the share where that is mode i.

  Args:
    rollout: yields rows of samples with `modes` and `sampler_logprobs`, such as `rollout.modes.forced`.
    reward: adds `rewards` [B].
    policy: what learns.
    kl: what holds the policy; it is what keeps the mode's token from becoming ever surer: one mode of a
      group always wins.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    inter_coef: α.
    margins: one for each mode, in units of reward; above 0 for the mode that should win ties.
  """
  parent = grpo(
      rollout, reward, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0,
      reduction=reductions.token_mean,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    mask, rows = batch['action_mask'], (batch['rewards'], batch['groups'], batch['modes'])
    is_mode = jnp.arange(mask.shape[1])[None] == batch['prompt_lengths'][:, None]
    inter = mode_advantages.inter_mode(*rows, margins=margins)
    advantages = mode_advantages.intra_mode(*rows)[:, None] + inter_coef * inter[:, None] * is_mode
    best = mode_advantages.best_mode(*rows, margins=margins)
    chances = jnp.where(is_mode, batch['sampler_logprobs'], 0).sum(axis=1)
    likeliest = mode_advantages.best_mode(
        chances, batch['groups'], batch['modes'], margins=(0.0,) * len(margins)
    )
    return {
        **batch, 'advantages': jnp.where(mask, advantages, 0),
        'mode/hybrid_accuracy': (likeliest == best).astype(jnp.float32),
        **{f'mode/best_{i}': (best == i).astype(jnp.float32) for i in range(len(margins))},
    }

  return dataclasses.replace(parent, advantage=advantage)
