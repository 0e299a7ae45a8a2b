"""GRPO: PPO without a critic; the samples of a prompt are each other's baseline.

    A_i = (r_i - mean(r)) / std(r)
    L = -mean_i 1/|y_i| Σ_t [ min(ρ A, clip(ρ, 1 - ε, 1 + ε) A) - β KL(π || ref) ],   ρ = π / π_old

Source: DeepSeekMath, https://arxiv.org/abs/2402.03300, eq. 3 and 4.
"""

from rlx import reductions
from rlx.advantages import groups
from rlx.losses import policy, regularizers
from rlx.metrics import describe_update
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout, Score


def grpo(
    rollout: Rollout,
    reward: Annotate,
    score: Score,
    *,
    clip_low: float,
    clip_high: float,
    kl_coef: float,
    entropy_coef: float,
    baseline=groups.normalised,
    reduction=reductions.sequence_mean,
) -> Algorithm:
  """Group relative policy optimisation.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    score: `(params, batch) -> (logprobs, entropy)`, each [B, T].
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    kl_coef: β; above 0 `models['reference']` is asked, at 0 it need not exist.
    entropy_coef: weight of an entropy bonus (0 in the paper).
    baseline: `(rewards, groups) -> advantages`, each [B].
    reduction: mask -> weights, how tokens are averaged.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    advantages = baseline(batch['rewards'], batch['groups'])
    mask = batch['action_mask']
    batch = {**batch, 'advantages': advantages[:, None] * mask, 'weights': reduction(mask)}
    if kl_coef:
      batch['reference_logprobs'], _ = score(models['reference'], batch)
    return batch

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = score(models['policy'], batch)
    clip = dict(clip_low=clip_low, clip_high=clip_high)
    surrogate = policy.clipped_surrogate(logprobs, batch['sampler_logprobs'], batch['advantages'], **clip)
    total = mean(surrogate)
    metrics = {'loss/policy': total, **describe_update(batch, logprobs, entropy, **clip)}
    if kl_coef:
      kl = mean(regularizers.kl_k3(logprobs, batch['reference_logprobs']))
      metrics['kl/reference'] = kl
      total += kl_coef * kl
    return total - entropy_coef * mean(entropy), metrics

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
