"""A2C: a policy gradient with a critic, one update for each stretch of time.

    A = GAE(r, V),   L = -mean log π(a | s) A + c_v mean (V(s) - R)² / 2 - c_e mean H(π)

At λ = 1 returns run to the end of the stretch and are bootstrapped there, as in the paper. Use it with one
epoch and one minibatch: what it learns from is on policy only once.

Source: Mnih et al., 2016, https://arxiv.org/abs/1602.01783, section 4 and algorithm S3, without the
asynchrony.
"""

import jax.numpy as jnp

from rlx.advantages import episodes
from rlx.errors import at_least
from rlx.losses import value as value_losses
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def a2c(
    rollout: Rollout, policy: Policy, value: Network, *, entropy_coef: float, value_coef: float,
    discount: float, lambda_: float,
) -> Algorithm:
  """Advantage actor-critic; trains `models['policy']` and `models['value']`.

  Args:
    rollout: yields [B, T] stretches of time.
    policy: a distribution of actions.
    value: V(s).
    entropy_coef: weight of the entropy bonus.
    value_coef: weight of the value loss.
    discount: γ per step.
    lambda_: of GAE; 1 is the paper.
  """
  at_least(0, value_coef=value_coef)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    values, advantages = episodes.estimated(
        value, models['value'], batch, discount=discount, lambda_=lambda_
    )
    return episodes.transitions({**batch, 'advantages': advantages, 'returns': advantages + values})

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch['observations'], batch['actions'])
    values = value.apply(models['value'], batch['observations'])
    policy_loss = -jnp.mean(logprobs * batch['advantages'])
    value_loss = value_losses.squared_error(values, batch['returns']).mean()
    entropy = entropy.mean()
    metrics = {'loss/policy': policy_loss, 'loss/value': value_loss, 'policy/entropy': entropy}
    return policy_loss + value_coef * value_loss - entropy_coef * entropy, metrics

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
