"""SS-ORL: where actions are missing, an inverse model fills them in, and any offline algorithm goes on.

    L = mean over labelled rows ‖a - f(s, s')‖²        (`ss_orl`, the first stage)
    â = f(s, s') where a row has no action             (`proxy_actions`, a rollout for any algorithm)

The second stage is the offline algorithm as it is, with another rollout.

Source: Zheng et al., 2022, https://arxiv.org/abs/2210.06518, algorithm 1. Their inverse model also sees some
steps before s, and is a Gaussian; this one sees s and s' alone.
"""

import jax.numpy as jnp

from rlx.envs.control.environment import Environment
from rlx.models import dynamics
from rlx.models.networks import Network
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def ss_orl(rollout: Rollout, env: Environment, inverse: Network) -> Algorithm:
  """The first stage; trains `inverse` on the rows that have actions.

  Args:
    rollout: yields transitions with `labelled` [B] bool.
    env: says which kind of actions.
    inverse: the action between two observations.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    errors = dynamics.inverse_loss(env, inverse, models['inverse'], batch)
    labelled = batch['labelled'].astype(jnp.float32)
    inverse_loss = jnp.mean(errors * labelled)  # a mean over all rows, so that it splits
    error = jnp.sum(errors * labelled) / jnp.maximum(labelled.sum(), 1)
    return inverse_loss, {'loss/inverse': inverse_loss, 'inverse/error': error}

  return Algorithm(rollout=rollout, loss=loss)
