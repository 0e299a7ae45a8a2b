"""EPO: an entropy bonus with a band around what the entropy has been; tokens outside it are led back.

    L = L_clip - λ [ mean H - β_k α mean d ],   d = max(κ_l H̄ - H, 0) + max(H - κ_r H̄, 0)

H̄ is the mean of the batches' entropies so far, the last few or all. A constant bonus lets the entropy of an
agent that earns little run away, and swing; the band moves only as fast as its history does. β_k is a
schedule: in the authors' code it falls slowly in the first half of training and fast in the second.

There d is a constant outside the band, which has no gradient; the distance is our reading
(`losses.entropy.band_penalty`). The code also keeps one H̄ for each turn of an episode and punishes only its
later half; here there is one, as in the formula.

Source: https://arxiv.org/abs/2509.22576; its numbers as in the authors' scripts.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.algorithms.policy_gradient import grpo_with
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.losses import entropy as entropy_control
from rlx.losses import policy as policy_losses
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, World


def epo_entropy(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    smooth_coef: float,
    ratio_low: float,
    ratio_high: float,
    window: int,
    phase: Callable,
) -> Algorithm:
  """Entropy-regularised policy optimisation: GRPO with a bonus and a band.

  Metrics: `entropy/centre`, H̄ in nats with this batch; `entropy/outside`, the share of tokens outside the
  band before the update; `entropy/phase`, β.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    policy: scores rows; its parameters are trained.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: λ (0.001 there).
    smooth_coef: α, how much more a nat outside the band costs than a nat of entropy earns: above 1, or the
      bonus wins there too.
    ratio_low: κ_l (0 there: only a ceiling).
    ratio_high: κ_r (2 there).
    window: batches whose entropies make H̄; as many as there are steps for all of them, as in the code.
    phase: β by the number of the step in this stage, such as `schedules.two_phases`.
  Raises:
    ValueError: the band is empty, or `window` is below 1.
  """
  if window < 1 or not 0 <= ratio_low <= 1 <= ratio_high:
    raise ValueError(
        f'window={window}, ratio_low={ratio_low}, ratio_high={ratio_high}: need window >= 1 and '
        '0 <= ratio_low <= 1 <= ratio_high'
    )
  band = dict(ratio_low=ratio_low, ratio_high=ratio_high)

  def begin(key: Key) -> World:
    return {'window': entropy_control.init_window(size=window), 'step': jnp.int32(0)}

  def annotate(history: World, batch: Batch) -> Batch:
    num, share = batch['groups'].shape[0], jnp.asarray(phase(history['step']), jnp.float32)
    return {
        **batch,
        'entropy_window': jnp.broadcast_to(history['window'], (num, window)),
        'entropy_phase': jnp.broadcast_to(share, num),
    }

  def observe(history: World, batch: Batch) -> World:
    mean = batch['mean_entropy'][0]
    return {
        'window': entropy_control.update_window(history['window'], mean), 'step': history['step'] + 1
    }

  def surrogate(
      ratios: jax.Array, advantages: jax.Array, entropy: jax.Array, entropy_window: jax.Array,
      entropy_phase: jax.Array,
  ):
    clipped = policy_losses.clipped(ratios, advantages, clip_low=clip_low, clip_high=clip_high)
    penalty = entropy_control.band_penalty(entropy, entropy_window[0], **band)
    return clipped + entropy_coef * smooth_coef * entropy_phase[:, None] * penalty

  parent = grpo_with(
      with_memory(rollout, 'entropies', begin=begin, annotate=annotate, observe=observe), reward, policy,
      surrogate=surrogate, entropy_coef=entropy_coef,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    _, entropy = policy.score(models['policy'], batch)
    everywhere = lambda x: jnp.broadcast_to(x, batch['groups'].shape)
    mean = lambda x: everywhere(reductions.weighted_mean(x, batch['weights']))
    history = batch['entropy_window'][0]
    now = entropy_control.update_window(history, reductions.weighted_mean(entropy, batch['weights']))
    outside = entropy_control.is_outside_band(entropy, history, **band)
    return {
        **batch,
        'mean_entropy': mean(entropy),
        'entropy/centre': everywhere(jnp.nanmean(now)),
        'entropy/outside': mean(outside.astype(jnp.float32)),
        'entropy/phase': batch['entropy_phase'],
    }

  return dataclasses.replace(parent, advantage=advantage)
