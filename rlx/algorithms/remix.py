"""ReMix: GRPO on fresh and on old rows, held by two policies; later the base moves up, and it ends on policy.

    r = π / π_sampler,   w = π_old / π_sampler
    L = -min(r A, clip(r, w - ε, w + ε) A) + β [ λ KL(π || base) + (1 - λ) KL(π || π_old) ]

π_old is the policy at the start of the update, π_sampler whoever said the row: both are the same for fresh
rows, and for old ones the band is about where the policy is now. The first of the two KLs keeps what the base
knows, the second lets the policy leave it; λ falls while training. The third part of the paper, that the
policy takes the base's place half-way and goes on without old rows, is a stage of a config: a stage copies
`slow.reference` anew.

Old rows come from the rollout (`rollout/reuse.py`); several updates a step are `updates.minibatches`.

Source: https://arxiv.org/abs/2507.06892; read in a summary of the paper. That KL is k3 of all rows, whoever
said them, is our reading.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.algorithms.policy_gradient import grpo_with
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.losses import regularizers
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def remix(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip: float,
    base_share: Callable,
) -> Algorithm:
  """Reincarnating mix-policy proximal policy gradient; asks the lagging `reference`.

  Args:
    rollout: yields rows with the `sampler_logprobs` of their own time, such as `rollout.reuse.reusing`.
    reward: adds `rewards` [B].
    policy: scores rows; its parameters are trained.
    kl: `anchors.kl_in_loss`, with β and the base.
    clip: ε, half the width of the band.
    base_share: λ in [0, 1] by the number of the step in this stage, such as `schedules.linear`.
  Raises:
    ValueError: β is not above 0, or the KL is not in the loss.
  """
  if kl.coef <= 0 or kl.reward_coef:
    raise ValueError(f'kl.coef={kl.coef}: both KLs are part of the method; give kl_in_loss a number above 0')

  def surrogate(
      logprobs: jax.Array, old_logprobs: jax.Array, sampler_logprobs: jax.Array, advantages: jax.Array
  ):
    return policy_losses.remix(logprobs, old_logprobs, sampler_logprobs, advantages, clip=clip)

  def divergence(
      logprobs: jax.Array, reference_logprobs: jax.Array, old_logprobs: jax.Array, base_share: jax.Array
  ):
    base, recent = (regularizers.kl_k3(logprobs, x) for x in (reference_logprobs, old_logprobs))
    return regularizers.kl_convex(base, recent, base_share=base_share[:, None])

  def annotate(step: jax.Array, batch: Batch) -> Batch:
    share = jnp.full(batch['groups'].shape, base_share(step), jnp.float32)
    return {**batch, 'base_share': share, 'kl/base_share': share}

  parent = grpo_with(
      with_memory(
          rollout, 'stage_step', begin=lambda key: jnp.int32(0), annotate=annotate,
          observe=lambda step, batch: step + 1,
      ),
      reward, policy, kl, surrogate=surrogate, kl_estimator=divergence,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = {**batch, 'old_logprobs': policy.score(models['policy'], batch)[0]}
    return parent.advantage(models, batch, key)

  return dataclasses.replace(parent, advantage=advantage)
