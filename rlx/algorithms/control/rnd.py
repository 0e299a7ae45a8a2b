"""RND: what a network cannot predict of a state is new, and worth going to; RDD, whose target is random.

PPO with a second value. A predictor f̂ is trained on what is visited to say what a fixed network f with random
weights says; where it errs, the agent has seldom been:

    b = mean_k (f̂_k(s') - f_k(s'))²,   L_f̂ = mean (f̂(s') - f(s') - σ ε)²,   ε ~ N(0, 1)
    A = A_E + c A_I,   A_I from b / (running deviation of the discounted sums of b)

With σ = 0 this is RND: f̂ can be right after few visits, and nothing says after how many. With σ > 0 it is
RDD: f̂ is at best the mean of n noisy targets, so that E b = σ² / n + (E f̂ - f)², a count and a discrepancy.
The bonus is not of an episode: its return goes on through the end of one, since what is found there is new
all the same. Left out of RND: the normalised observations of f (ours are of order one), and the random share
of the rows that f̂ learns from.

Source: Burda et al., 2018, https://arxiv.org/abs/1810.12894, sections 2.2-2.4; Fang et al., 2025,
https://arxiv.org/abs/2505.11044, where one σ for all states and the distance to the mean of the target are
our reading of the abstract.
"""

import jax
import jax.numpy as jnp

from rlx.advantages import episodes, running, temporal
from rlx.algorithms.control.ppo import ppo
from rlx.controllers.memory import with_memory
from rlx.losses import value as value_losses
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def rnd(
    rollout: Rollout, policy: Policy, value: Network, bonus_value: Network, predictor: Network,
    target: Network, *, clip_low: float, clip_high: float, entropy_coef: float, value_coef: float,
    value_clip: float, discount: float, lambda_: float, bonus_coef: float, bonus_discount: float,
    spread: float,
) -> Algorithm:
  """PPO that is paid for novelty; trains `policy`, `value`, `bonus_value` and `predictor`, never `target`.

  Args:
    rollout: yields [B, T] stretches of time with `sampler_logprobs`; updates see their B T transitions.
    policy: a distribution of actions.
    value: V(s) of the rewards.
    bonus_value: V(s) of the bonus.
    predictor: f̂, features of observations.
    target: f, as many of them.
    clip_low: as are the next five, of `ppo`.
    clip_high: see there.
    entropy_coef: see there.
    value_coef: see there; for both values.
    value_clip: see there; for both values.
    discount: γ of the rewards, per step.
    lambda_: of GAE, for both.
    bonus_coef: c, what an advantage of the normalised bonus is worth in units of returns; 0 is PPO.
    bonus_discount: γ of the bonus, per step.
    spread: σ, standard deviation of the target's output; 0 is RND.
  """
  base = ppo(
      rollout, policy, value, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, discount=discount, lambda_=lambda_,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    observations, nexts = batch['observations'], batch['next_observations']
    bonus = novelty(predictor.apply(models['predictor'], nexts), target.apply(models['target'], nexts))
    values, advantages = episodes.estimated(
        value, models['value'], batch, discount=discount, lambda_=lambda_
    )
    through = jnp.full_like(bonus, bonus_discount)  # no episode ends it
    bonus_values = bonus_value.apply(
        models['bonus_value'], jnp.concatenate([observations, nexts[:, -1:]], axis=1)
    )
    bonus_advantages = temporal.gae(bonus / batch['bonus_scale'], bonus_values, through, lambda_=lambda_)
    return episodes.transitions({
        **batch, 'values': values, 'returns': advantages + values,
        'bonus_values': bonus_values[:, :-1], 'bonus_returns': bonus_advantages + bonus_values[:, :-1],
        'bonus_sums': temporal.returns(bonus, through), 'bonus/mean': bonus,
        'advantages': episodes.normalised(advantages + bonus_coef * bonus_advantages),
    })

  def loss(models: Models, batch: Batch, key: Key):
    total, metrics = base.loss(models, batch, key)
    bonus_values = bonus_value.apply(models['bonus_value'], batch['observations'])
    bonus_loss = value_losses.clipped_squared_error(
        bonus_values, batch['bonus_values'], batch['bonus_returns'], clip=value_clip
    ).mean()
    features = jax.lax.stop_gradient(target.apply(models['target'], batch['next_observations']))
    noisy = features + spread * jax.random.normal(key, features.shape)
    predictor_loss = novelty(predictor.apply(models['predictor'], batch['next_observations']), noisy).mean()
    metrics = {**metrics, 'loss/bonus_value': bonus_loss, 'loss/predictor': predictor_loss}
    return total + value_coef * bonus_loss + predictor_loss, metrics

  return Algorithm(rollout=_with_scale(rollout), advantage=advantage, loss=loss)


def novelty(predicted: jax.Array, features: jax.Array) -> jax.Array:
  """mean_k (f̂_k - f_k)²: [..., K] and [..., K] -> [...] float32."""
  return jnp.square(predicted - features).mean(axis=-1)


def _with_scale(rollout: Rollout):
  """The rollout with a column `bonus_scale`, the deviation of the sums of bonus in all batches before."""
  one_key = lambda batch: jnp.zeros(batch['bonus_sums'].shape, jnp.int32)

  def annotate(moments: running.Moments, batch: Batch) -> Batch:
    scale = running.moments_deviation(moments, jnp.zeros(1, jnp.int32))
    return {**batch, 'bonus_scale': jnp.broadcast_to(scale[:, None], batch['rewards'].shape)}

  def observe(moments: running.Moments, batch: Batch) -> running.Moments:
    return running.moments_update(moments, one_key(batch), batch['bonus_sums'], keep=1.0)

  return with_memory(
      rollout, 'bonus', begin=lambda key: running.moments_init(1), annotate=annotate, observe=observe
  )
