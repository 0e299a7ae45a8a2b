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
from rlx.algorithms.ppo import clipped_loss
from rlx.engine.speaker import Critic, Speaker
from rlx.losses import anchors
from rlx.losses.anchors import Anchor
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

  loss = clipped_loss(
      policy, value, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, value_weights='turn_weights',
  )
  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
