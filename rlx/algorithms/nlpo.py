"""NLPO: PPO that says only what a past policy finds likely, held near a reference by an adaptive coefficient.

    π̃(a | s) ~ π_θ(a | s) [a in the top-p set of π_ψ(. | s)],   ψ ← θ every μ updates
    r_t = -β log(π̃_old(y_t) / π_0(y_t)) + [t is last] r,   β ← β (1 + K clip((KL - KL*) / KL*, -0.2, 0.2))

It is `ppo` with the mask in the sampler and in the loss, and with β in the memory of the rollout. KL is the
mean of log(π̃_old / π_0) over the tokens of a batch. The mask alone costs some of it: where π_θ = π_0, -log of
the nucleus's mass, up to -log p a token; a target below that cannot be held.

What π_θ says outside of the mask is not trained, and wanders; a copy makes it part of the next mask. What
that does is told in `policy_gradient/nlpo_sorting`.

Source: Ramamurthy et al., 2022, https://arxiv.org/abs/2210.01241, algorithm 1; β and the mean over tokens as
in the authors' code. There, KL is of π_θ before the mask; that of the policy which is sampled is our reading.
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from rlx import reductions
from rlx.advantages import temporal
from rlx.algorithms.ppo import ppo
from rlx.controllers.memory import with_memory
from rlx.engine.speaker import Critic, Speaker
from rlx.losses import anchors, regularizers
from rlx.losses.anchors import Anchor
from rlx.rollout import nucleus
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def nlpo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    past: Speaker,
    value: Critic,
    kl: Anchor,
    *,
    top_p: float,
    min_kept: int,
    refresh: int,
    clip_low: float,
    clip_high: float,
    kl_target: float,
    kl_rate: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    discount: float,
    lambda_: float,
) -> Algorithm:
  """Trains `models['policy']` and `models['value']`; asks the lagging `past`, and a reference.

  Args:
    rollout: `rollout.nucleus.completions`, of the same `top_p` and `min_kept`.
    reward: adds `rewards` [B], paid at the last action of the row.
    policy: what learns, without filters of its own.
    past: says which tokens may be said.
    value: the critic, which learns too.
    kl: `kl_in_reward`; its coefficient is β at the start.
    top_p: p, of the past policy (0.9 in the paper).
    min_kept: tokens that the mask leaves at least (100 in the authors' code, of some 50,000).
    refresh: μ, updates between copies of the policy; a multiple of the updates of a step, or a batch is
      learned from under another mask than it was drawn under.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    kl_target: KL*, nats a token, above 0.
    kl_rate: K (0.1 in the authors' code); 0 keeps β.
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    value_clip: how far values may move from those of the rollout before they stop counting.
    discount: γ per token, usually 1.
    lambda_: of GAE; 1 is Monte Carlo.
  Raises:
    ValueError: a number is out of range, the KL is not in the reward, or the policy has a filter.
  """
  nucleus.check(policy, top_p, min_kept)
  if refresh < 1 or kl_target <= 0:
    raise ValueError(f'refresh={refresh}, kl_target={kl_target}: need refresh >= 1 and kl_target > 0')
  if kl.reward_coef <= 0 or kl.coef:
    raise ValueError(
        f'kl counts {kl.reward_coef} in the reward and {kl.coef} in the loss: need kl_in_reward, above 0'
    )
  with_coef = with_memory(
      rollout, 'kl_coef',
      begin=lambda key: regularizers.init_kl_coef(kl_coef=kl.reward_coef),
      annotate=lambda coef, batch: {**batch, 'kl/coef': jnp.full(batch['groups'].shape, coef)},
      observe=lambda coef, batch: regularizers.update_kl_coef(
          coef, batch['kl/reference'].mean(), target=kl_target, rate=kl_rate
      ),
  )
  parent = ppo(
      with_coef, reward, _Masked(**vars(policy), past=past, top_p=top_p, min_kept=min_kept), value,
      anchors.no_kl(), clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, discount=discount, lambda_=lambda_,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask = batch['action_mask']
    weights = reductions.token_mean(mask)
    batch = {**kl.annotate(models, batch), 'weights': weights}
    divergence = anchors.token_kl(batch)
    rewards = temporal.paid_at_end(batch['rewards'], mask) - batch['kl/coef'][:, None] * divergence
    values = value.apply(models['value'], batch)
    advantages = temporal.gae_tokens(rewards, values, mask, discount=discount, lambda_=lambda_)
    return {
        **batch,
        'values': values,
        'returns': jnp.where(mask, advantages + values, 0),
        'advantages': temporal.whiten(advantages, mask),
        'kl/reference': jnp.sum(weights * divergence, axis=1),  # its mean over rows is that over tokens
    }

  def loss(models: Models, batch: Batch, key: Key):
    both = {name: models[name] for name in nucleus.MODELS}
    return parent.loss({**models, 'policy': both}, batch, key)

  def track(slow: Models, params: Models, update) -> Models:
    return {**slow, 'past': optax.periodic_update(params['policy'], slow['past'], update + 1, refresh)}

  return dataclasses.replace(parent, advantage=advantage, loss=loss, track=track)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Masked(Speaker):
  """Scores rows as they were drawn, inside the nucleus of another model."""

  past: Speaker
  top_p: float
  min_kept: int

  def score(self, models: Models, batch: Batch) -> tuple[jax.Array, jax.Array]:
    """As `nucleus.score`; `models` are `policy` and `past`."""
    return nucleus.score(models, self, self.past, batch, top_p=self.top_p, min_kept=self.min_kept)
