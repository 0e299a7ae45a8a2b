"""PPO whose critic knows turns: one value before each turn, GAE from turn to turn, ratios token by token.

    A_k = Σ_j (γ λ)^(j - k) [ r_j + γ V_{j+1} - V_j ],   at every token of turn k
    L = -min(ρ A, clip(ρ) A) + c_v 1/2 (V_k - R_k)² - c_e H,   R_k = A_k + V_k

The parent is `ppo`. Its time passes at tokens: with λ below 1 the outcome fades within a long action already,
and values inside an action have to be learnt. Here both depend on nothing but turns.

Source: VL-DAC, https://arxiv.org/abs/2508.04280 (value and GAE of environment steps); ERA,
https://arxiv.org/abs/2510.12693 (turn-level GAE).
"""

import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import temporal, turns
from rlx.engine.speaker import Critic, Speaker
from rlx.losses import anchors, regularizers
from rlx.losses import policy as policy_losses
from rlx.losses import value as value_losses
from rlx.losses.anchors import Anchor
from rlx.metrics import describe_update
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def turn_ppo(
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
    lambda_: float,
) -> Algorithm:
  """Proximal policy optimisation by turns; trains `models['policy']` and `models['value']`.

  Args:
    rollout: yields rows with `turns` and `token_rewards`, such as `turns.episodes`.
    reward: adds `rewards` [B], such as `of_world`; what is learnt from are `token_rewards`.
    policy: scores rows.
    value: the critic, read before the first token of each turn.
    kl: what holds the policy to `models['reference']`, in the rewards of turns or in the loss.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss, a mean over turns.
    value_clip: how far values may move from those of the rollout before they stop counting.
    discount: γ from turn to turn.
    lambda_: of GAE.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask, token_rewards = batch['action_mask'], batch['token_rewards']
    if kl.coef or kl.reward_coef:
      batch = kl.annotate(models, batch)
    if kl.reward_coef:
      token_rewards -= kl.reward_coef * anchors.token_kl(batch)
    values, first = value.apply(models['value'], batch), turns.beginnings(batch['turns'], mask)
    advantages = turns.gae_turns(
        token_rewards, values, batch['turns'], mask, discount=discount, lambda_=lambda_
    )
    return {
        **batch,
        'values': values,
        'returns': jnp.where(first, advantages + values, 0),
        'advantages': temporal.whiten(advantages, mask),
        'weights': reductions.token_mean(mask),
        'turn_weights': reductions.token_mean(first),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = policy.score(models['policy'], batch)
    clip = dict(clip_low=clip_low, clip_high=clip_high)
    policy_loss = mean(policy_losses.clipped_surrogate(
        logprobs, batch['sampler_logprobs'], batch['advantages'], **clip
    ))
    errors = value_losses.clipped_squared_error(
        value.apply(models['value'], batch), batch['values'], batch['returns'], clip=value_clip
    )
    value_loss = reductions.weighted_mean(errors, batch['turn_weights'])
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

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
