"""REINFORCE: the policy gradient as it stands, with a baseline and the KL penalty inside the reward.

    R_i = r_i - β Σ_t log(π(y_t) / ref(y_t)),   L = -mean_i (R_i - b_i) Σ_t log π(y_t)

The whole response is one action. There is no ratio: more than one update a batch is off policy, uncorrected.
Source: Williams, 1992, https://doi.org/10.1007/BF00992696; for language models: Ahmadian et al., 2024,
https://arxiv.org/abs/2402.14740, section 2.
"""

import jax.numpy as jnp

from rlx import reductions
from rlx.losses import policy
from rlx.metrics import describe_mismatch
from rlx.rewards import shaping
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def batch_mean(rewards, groups):
  """Rewards minus the mean of the whole batch."""
  del groups
  return rewards - jnp.mean(rewards)


def reinforce(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    *,
    kl_coef: float,
    entropy_coef: float,
    baseline=batch_mean,
    reduction=reductions.sequence_sum,
) -> Algorithm:
  """REINFORCE on sequences.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    kl_coef: β; above 0 `models['reference']` is asked, at 0 it need not exist.
    entropy_coef: weight of an entropy bonus per token.
    baseline: `(rewards, groups) -> advantages`, each [B].
    reduction: mask -> weights, how tokens are averaged.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask, rewards = batch['action_mask'], batch['rewards']
    if kl_coef:
      batch = {**batch, 'reference_logprobs': score(models['reference'], batch)[0]}
      rewards -= kl_coef * shaping.sequence_kl(batch)
    advantages = baseline(rewards, batch['groups'])
    return {
        **batch,
        'advantages': advantages[:, None] * mask,
        'weights': reduction(mask),
        'token_weights': reductions.token_mean(mask),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = score(models['policy'], batch)
    total = mean(policy.reinforce(logprobs, batch['advantages']))
    token_entropy = reductions.weighted_mean(entropy, batch['token_weights'])
    metrics = {'loss/policy': total, 'policy/entropy': token_entropy}
    return total - entropy_coef * token_entropy, {**metrics, **describe_mismatch(batch, logprobs)}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
