"""REINFORCE: the policy gradient as it stands, with a baseline and the KL penalty inside the reward.

    R_i = r_i - β Σ_t log(π(y_t) / ref(y_t)),   L = -mean_i (R_i - mean(R)) Σ_t log π(y_t)

The whole response is one action; the baseline is the mean of the batch, another one is `policy_gradient`'s
(`presets.rloo`). There is no ratio: more than one update a batch is off policy, uncorrected.
Source: Williams, 1992, https://doi.org/10.1007/BF00992696; for language models: Ahmadian et al., 2024,
https://arxiv.org/abs/2402.14740, section 2.
"""

import jax.numpy as jnp

from rlx import reductions
from rlx.engine.speaker import Speaker
from rlx.losses import anchors, regularizers
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.metrics import describe_mismatch
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def reinforce(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor, *, entropy_coef: float
) -> Algorithm:
  """REINFORCE on sequences.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    policy: scores rows; its parameters are trained.
    kl: what holds the policy to `models['reference']`, in the reward (β) or in the loss; with `no_kl` there
      need not be one.
    entropy_coef: weight of an entropy bonus per token.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask, rewards = batch['action_mask'], batch['rewards']
    if kl.coef or kl.reward_coef:
      batch = kl.annotate(models, batch)
    if kl.reward_coef:
      rewards -= kl.reward_coef * anchors.sequence_kl(batch)
    advantages = rewards - jnp.nanmean(rewards)
    return {
        **batch,
        'advantages': jnp.where(mask, advantages[:, None], 0),
        'weights': reductions.sequence_sum(mask, scored_rows(batch)),
        'token_weights': reductions.token_mean(mask),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = policy.score(models['policy'], batch)
    total = mean(policy_losses.reinforce(logprobs, batch['advantages']))
    token_entropy = reductions.weighted_mean(entropy, batch['token_weights'])
    metrics = {'loss/policy': total, 'policy/entropy': token_entropy}
    if kl.coef:
      divergence = mean(regularizers.kl_k3(logprobs, batch['reference_logprobs']))
      metrics['kl/reference'] = divergence
      total += kl.coef * divergence
    return total - entropy_coef * token_entropy, {**metrics, **describe_mismatch(batch, logprobs)}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
