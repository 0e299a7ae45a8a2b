"""GRPO: PPO without a critic; the samples of a prompt are each other's baseline.

    A_i = (r_i - mean(r)) / std(r)
    L = -mean_i 1/|y_i| Σ_t [ min(ρ A, clip(ρ, 1 - ε, 1 + ε) A) - β KL(π || ref) ],   ρ = π / π_old

Source: DeepSeekMath, https://arxiv.org/abs/2402.03300, eq. 3 and 4.
"""

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups
from rlx.engine.speaker import Speaker
from rlx.losses import anchors, regularizers
from rlx.losses import policy as policy_losses
from rlx.losses.anchors import Anchor
from rlx.metrics import describe_update
from rlx.names import fill
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def grpo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    baseline=groups.normalised,
    reduction=reductions.sequence_mean,
) -> Algorithm:
  """Group relative policy optimisation.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    policy: scores rows; its parameters are trained.
    kl: what holds the policy to `models['reference']`, in the loss (β, the paper's) or in the reward; with
      `no_kl` there need not be one.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: weight of an entropy bonus (0 in the paper).
    baseline: `(rewards, groups) -> advantages`, each [B].
    reduction: how tokens are averaged; asks for `mask`, `scored` or `groups` by name.

  On rows that two prompts have given, with a policy that is a table of log-probs:

  >>> import jax, jax.numpy as jnp
  >>> from types import SimpleNamespace
  >>> table = SimpleNamespace(score=lambda params, batch: (params, jnp.zeros_like(params)))
  >>> reward = lambda models, batch, key: {**batch, 'rewards': jnp.array([1.0, 0.0, 1.0, 1.0])}
  >>> method = grpo(None, reward, table, anchors.no_kl(), clip_low=0.2, clip_high=0.2, entropy_coef=0.0)
  >>> models = {'policy': jnp.zeros((4, 2))}
  >>> rows = {'action_mask': jnp.ones((4, 2), bool), 'groups': jnp.array([0, 0, 1, 1])}
  >>> rows = {**rows, 'sampler_logprobs': jnp.zeros((4, 2)), 'prompt_lengths': jnp.zeros(4, int)}
  >>> rows = method.advantage(models, method.reward(models, rows, None), None)
  >>> gradient = jax.grad(lambda models: method.loss(models, rows, None)[0])(models)['policy']
  >>> print(jnp.abs(gradient[:, 0]).round(2))  # the right one of two and the wrong one; nothing of two alike
  [0.09 0.09 0.   0.  ]
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask, rewards = batch['action_mask'], batch['rewards']
    if kl.coef or kl.reward_coef:
      batch = kl.annotate(models, batch)
    if kl.reward_coef:
      rewards -= kl.reward_coef * anchors.sequence_kl(batch)
    advantages = baseline(rewards, batch['groups'])
    known = {'mask': mask, 'scored': scored_rows(batch), 'groups': batch['groups']}
    return {
        **batch, 'advantages': jnp.where(mask, advantages[:, None], 0), 'weights': fill(reduction, known)
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = policy.score(models['policy'], batch)
    clip = dict(clip_low=clip_low, clip_high=clip_high)
    surrogate = policy_losses.clipped_surrogate(
        logprobs, batch['sampler_logprobs'], batch['advantages'], **clip
    )
    total = mean(surrogate)
    metrics = {'loss/policy': total, **describe_update(batch, logprobs, entropy, **clip)}
    if kl.coef:
      divergence = mean(regularizers.kl_k3(logprobs, batch['reference_logprobs']))
      metrics['kl/reference'] = divergence
      total += kl.coef * divergence
    return total - entropy_coef * mean(entropy), metrics

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
