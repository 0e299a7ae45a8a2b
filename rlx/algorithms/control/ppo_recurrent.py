"""PPO for policies that remember: rows are stretches of time, which the loss reads again from their start.

The losses are those of `ppo.py`, without the clip of values. A row begins with the carry that the rollout had
there; behind it, and across the whole row, gradients go back through time up to where an episode begins. The
carry in front of a row is that of the policy that sampled, also in later epochs (as in common
implementations; R2D2 calls it stale). What follows a step is valued with the carry behind that step, so that
a time limit is bootstrapped with all that is remembered.

Source: Schulman et al., 2017, https://arxiv.org/abs/1707.06347, eq. 9; Kapturowski et al., 2019 (R2D2),
https://openreview.net/forum?id=r1lyTjAqYX, section 3 (stored carries).
"""

import jax
import jax.numpy as jnp

from rlx.advantages import temporal
from rlx.advantages.episodes import normalised
from rlx.errors import at_least
from rlx.losses import policy as policy_losses
from rlx.losses import regularizers
from rlx.losses import value as value_losses
from rlx.models.networks import picked
from rlx.models.recurrent import Recurrent
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def ppo_recurrent(
    rollout: Rollout, policy: Recurrent, *, clip_low: float, clip_high: float, entropy_coef: float,
    value_coef: float, discount: float, lambda_: float,
) -> Algorithm:
  """Recurrent PPO; trains `models['policy']`, which has the value too.

  Args:
    rollout: `recurrent`; minibatches are of its rows [T], whole.
    policy: a distribution and a value with a carry.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    discount: γ per step.
    lambda_: of GAE; 1 is Monte Carlo.
  """
  at_least(0, value_coef=value_coef)
  read = lambda models, batch: policy.scan(
      models['policy'], batch['carries'], batch['observations'], batch['starts']
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    carries, _, values = read(models, batch)
    _, _, next_values = policy.step(models['policy'], carries, batch['next_observations'])
    advantages = temporal.gae_episodes(
        batch['rewards'], values, next_values, batch['terminated'], batch['truncated'], discount=discount,
        lambda_=lambda_,
    )
    return {**batch, 'returns': advantages + values, 'advantages': normalised(advantages)}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    _, logits, values = read(models, batch)
    all_logprobs = jax.nn.log_softmax(logits)
    logprobs = picked(all_logprobs, batch['actions'])
    entropy = -jnp.sum(jnp.exp(all_logprobs) * all_logprobs, axis=-1).mean()
    old, clip = batch['sampler_logprobs'], dict(clip_low=clip_low, clip_high=clip_high)
    policy_loss = policy_losses.clipped_surrogate(logprobs, old, batch['advantages'], **clip).mean()
    value_loss = value_losses.squared_error(values, batch['returns']).mean()
    metrics = {
        'loss/policy': policy_loss,
        'loss/value': value_loss,
        'policy/entropy': entropy,
        'kl/old': regularizers.kl_k3(old, logprobs).mean(),  # KL(sampler || policy)
    }
    return policy_loss + value_coef * value_loss - entropy_coef * entropy, metrics

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
