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

from rlx import reductions
from rlx.advantages import groups as group_advantages
from rlx.algorithms.policy_gradient import policy_gradient
from rlx.controllers.memory import with_memory
from rlx.losses import corrections, policy, regularizers, weights
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def remix(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    *,
    clip: float,
    kl_coef: float,
    base_share: Callable,
) -> Algorithm:
  """Reincarnating mix-policy proximal policy gradient; asks the lagging `reference`.

  Args:
    rollout: yields rows with the `sampler_logprobs` of their own time, such as `rollout.reuse.reusing`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    clip: ε, half the width of the band.
    kl_coef: β, above 0.
    base_share: λ in [0, 1] by the number of the step in this stage, such as `schedules.linear`.
  Raises:
    ValueError: `kl_coef` is not above 0.
  """
  if kl_coef <= 0:
    raise ValueError(f'kl_coef={kl_coef}: the two KLs are part of the method; give a number above 0')

  def surrogate(
      logprobs: jax.Array, old_logprobs: jax.Array, sampler_logprobs: jax.Array, advantages: jax.Array
  ):
    return policy.remix(logprobs, old_logprobs, sampler_logprobs, advantages, clip=clip)

  def kl(
      logprobs: jax.Array, reference_logprobs: jax.Array, old_logprobs: jax.Array, base_share: jax.Array
  ):
    base, recent = (regularizers.kl_k3(logprobs, x) for x in (reference_logprobs, old_logprobs))
    return regularizers.kl_convex(base, recent, base_share=base_share[:, None])

  def annotate(step: jax.Array, batch: Batch) -> Batch:
    share = jnp.full(batch['groups'].shape, base_share(step), jnp.float32)
    return {**batch, 'base_share': share, 'kl/base_share': share}

  parent = policy_gradient(
      with_memory(
          rollout, 'stage_step', begin=lambda key: jnp.int32(0), annotate=annotate,
          observe=lambda step, batch: step + 1,
      ),
      reward, score, baseline=group_advantages.normalised, weight=weights.equal, level=policy.ratio,
      surrogate=surrogate, reduction=reductions.sequence_mean, kl=kl, kl_coef=kl_coef, kl_reward_coef=0.0,
      entropy_coef=0.0, correction=corrections.none, correction_level=policy.ratio,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = {**batch, 'old_logprobs': score(models['policy'], batch)[0]}
    return parent.advantage(models, batch, key)

  return dataclasses.replace(parent, advantage=advantage)
