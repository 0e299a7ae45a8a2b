"""SuperHF: supervised learning of the best of what the policy itself says, with the KL to what it was.

    L = -log π(y*|x) / |y*|, y* the best of a prompt's samples as the reward model says,  + λ KL(π || ref)

Samples are filtered and learnt from as if they had been demonstrated, again in each step; there is no
advantage and no ratio. Nothing else holds the policy: with λ = 0 it becomes sure of what the judge likes.

Source: Mukobi et al., 2023, https://arxiv.org/abs/2310.16763. The KL is estimated from all samples of the
batch (k2, whose gradient is that of KL(π || ref) on samples of π); the paper reads it off the logits.
"""

import jax.numpy as jnp

from rlx import reductions
from rlx.engine.speaker import Speaker
from rlx.errors import at_least
from rlx.losses import comparisons, regularizers
from rlx.rewards.of_learners import extremes
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def superhf(
    rollout: Rollout, reward: Annotate, policy: Speaker, reference: Speaker, *, kl_coef: float
) -> Algorithm:
  """Supervised iterative learning from human feedback.

  Args:
    rollout: yields groups of samples of the policy.
    reward: adds `rewards` [B], such as `learned`.
    policy: its parameters are trained.
    reference: scores samples: `models['reference']`.
    kl_coef: λ, at least 0.
  """
  at_least(0, kl_coef=kl_coef)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    best, _, _ = extremes(batch)
    mask = batch['action_mask']
    kept = mask & (best == jnp.arange(len(best)))[:, None]
    return {
        **batch, 'weights': reductions.sequence_mean(kept),
        'reference_sums': comparisons.summed(reference.score(models['reference'], batch)[0], mask),
        'shares': reductions.sequence_mean(mask).sum(axis=1),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    nll = reductions.weighted_mean(-logprobs, batch['weights'])
    mean = lambda x: jnp.mean(x * batch['shares'])
    sums, of_reference = comparisons.summed(logprobs, batch['action_mask']), batch['reference_sums']
    kl = mean(regularizers.kl_k2(sums, of_reference))
    return nll + kl_coef * kl, {
        'loss/nll': nll, 'kl/reference': mean(regularizers.kl_k1(sums, of_reference)),
        'policy/entropy': mean(comparisons.averaged(entropy, batch['action_mask'])),
    }

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
