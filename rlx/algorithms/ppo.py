"""PPO for language models, with a critic: tokens are actions, the KL to a reference is part of the reward.

    r_t = -β log(π_old(y_t) / ref(y_t)) + [t is last] r,   A = GAE(r, V),   R = A + V
    L = -min(ρ A, clip(ρ) A) + c_v 1/2 max((V - R)², (clip(V, V_old ± ε_v) - R)²) - c_e H

Advantages are whitened over the tokens of the batch. Source: Schulman et al., 2017,
https://arxiv.org/abs/1707.06347, eq. 9; for language models: Ziegler et al., 2019,
https://arxiv.org/abs/1909.08593, section 2.
"""

from collections.abc import Callable

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import temporal
from rlx.engine.speaker import Critic, Speaker
from rlx.errors import at_least
from rlx.losses import anchors, regularizers
from rlx.losses import policy as policy_losses
from rlx.losses import value as value_losses
from rlx.losses.anchors import Anchor
from rlx.metrics import describe_update
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def ppo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    value: Critic,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    discount: float,
    lambda_: float | Callable,
) -> Algorithm:
  """Proximal policy optimisation; trains `models['policy']` and `models['value']`.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B], paid at the last action of the row.
    policy: scores rows; its parameters are trained.
    value: the critic, `models['value']`.
    kl: what holds the policy to `models['reference']`, in the reward (β) or in the loss; with `no_kl` there
      need not be one.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    value_clip: how far values may move from those of the rollout before they stop counting.
    discount: γ per token, usually 1.
    lambda_: of GAE; 1 is Monte Carlo. Or `lengths [B] -> [B]`, a number for each row by its actions, such as
      `temporal.lengths_to_lambda`. The critic's targets are made with the same.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask = batch['action_mask']
    token_rewards = temporal.paid_at_end(batch['rewards'], mask)
    if kl.coef or kl.reward_coef:
      batch = kl.annotate(models, batch)
    if kl.reward_coef:
      token_rewards -= kl.reward_coef * anchors.token_kl(batch)
    values = value.apply(models['value'], batch)
    decay = lambda_(mask.sum(axis=1))[:, None] if callable(lambda_) else lambda_
    advantages = temporal.gae_tokens(token_rewards, values, mask, discount=discount, lambda_=decay)
    return {
        **batch,
        'values': values,
        'returns': jnp.where(mask, advantages + values, 0),
        'advantages': temporal.whiten(advantages, mask),
        'weights': reductions.token_mean(mask),
    }

  loss = clipped_loss(
      policy, value, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, value_weights='weights',
  )
  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)


def clipped_loss(
    policy: Speaker, value: Critic, kl: Anchor, *, clip_low: float, clip_high: float, entropy_coef: float,
    value_coef: float, value_clip: float, value_weights: str,
) -> Callable:
  """The loss of a policy and its critic; arguments as for `ppo`.

  Args:
    value_weights: the column [B, T] by which errors of values count.
  """
  at_least(0, value_coef=value_coef)

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = policy.score(models['policy'], batch)
    clip = dict(clip_low=clip_low, clip_high=clip_high)
    surrogate = policy_losses.clipped_surrogate(
        logprobs, batch['sampler_logprobs'], batch['advantages'], **clip
    )
    policy_loss = mean(surrogate)
    values = value.apply(models['value'], batch)
    errors = value_losses.clipped_squared_error(values, batch['values'], batch['returns'], clip=value_clip)
    value_loss = reductions.weighted_mean(errors, batch[value_weights])
    metrics = {
        'loss/policy': policy_loss,
        'loss/value': value_loss,
        **describe_update(batch, logprobs, entropy, **clip),
    }
    total = policy_loss + value_coef * value_loss - entropy_coef * mean(entropy)
    if kl.coef:
      divergence = mean(regularizers.kl_k3(logprobs, batch['reference_logprobs']))
      metrics['kl/reference'] = divergence
      total += kl.coef * divergence
    return total, metrics

  return loss
