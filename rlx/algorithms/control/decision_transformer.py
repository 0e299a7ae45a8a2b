"""The decision transformer: an episode is a sequence to go on with, given the return that is wanted.

    R_1, s_1, a_1, R_2, s_2, a_2, ...,   R_t = Σ_{t' >= t} r_t'
    L = mean over the steps of a row of  ‖a_t - π(R_1, s_1, a_1, ..., R_t, s_t)‖²,  or -log π(a_t | ...)

It is `rcsl` that sees the last K steps and not one: a causal transformer whose output at s_t is a_t. Rows are
stretches of episodes; at the time to act, what is asked for goes down by what was earned. Nothing is
bootstrapped or stitched, but what an observation does not show can be remembered.

Source: Chen et al., 2021, https://arxiv.org/abs/2106.01345, section 3 and algorithm 1. As there, the three
tokens of a step share a learnt embedding of its time; here they have rotary positions besides, which tell
them apart, and stretches begin anywhere, are as long as the episode goes, and are not padded in front.
"""

import jax.numpy as jnp
import optax

from rlx.envs.control.environment import Discrete, Environment
from rlx.models.history import INPUTS, History
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def decision_transformer(rollout: Rollout, env: Environment, policy: History) -> Algorithm:
  """Trains `policy`.

  Args:
    rollout: yields the rows of `offline_stretches`.
    env: says whether actions are discrete.
    policy: `causal`.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    found = policy.apply(models['policy'], *(batch[name] for name in INPUTS))
    if isinstance(env.actions, Discrete):
      errors = optax.softmax_cross_entropy_with_integer_labels(found, batch['actions'])
    else:
      errors = jnp.square(found - batch['actions']).mean(axis=-1)
    counts = batch['valid'].sum(axis=1)
    policy_loss = jnp.mean(jnp.where(batch['valid'], errors, 0).sum(axis=1) / counts)
    return policy_loss, {'loss/policy': policy_loss, 'row/steps': counts.mean()}

  return Algorithm(rollout=rollout, loss=loss)
