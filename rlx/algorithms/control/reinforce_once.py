"""REINFORCE for decisions of one step: what an action earned above the mean of its batch.

    L = -mean (r - mean r) log π(a | o) - c mean H(π(. | o))

Source: Williams, 1992, https://doi.org/10.1007/BF00992696, with the batch mean as the baseline.
"""

import jax.numpy as jnp

from rlx.models.networks import Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def reinforce_once(rollout: Rollout, policy: Policy, *, entropy_coef: float) -> Algorithm:
  """Trains `models['policy']` on rows with `observations`, `actions` and `rewards` [B].

  Args:
    rollout: yields them.
    policy: a distribution of actions.
    entropy_coef: c.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    return {**batch, 'advantages': batch['rewards'] - batch['rewards'].mean()}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch['observations'], batch['actions'])
    value = -jnp.mean(logprobs * batch['advantages'])
    return value - entropy_coef * entropy.mean(), {'loss/policy': value, 'policy/entropy': entropy.mean()}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
