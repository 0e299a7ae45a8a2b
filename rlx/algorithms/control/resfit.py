"""ResFiT: a cloned policy that plans ahead is frozen, and a small policy beside it corrects each step.

    base:      b_t, ..., b_{t+k-1} = β(s_t) at every kth step, carried out without looking up
    residual:  a_t = clip(b_t + c tanh f(s_t, b_t), ±1)

The base is cloned from demonstrations (`cloning`, the first stage). The residual is then trained by TD3
(`td3.td3` with an ensemble, normalised layers and several updates a step) from rewards on arrival alone, with
half of each batch from the demonstrations. It begins at zero, so the run begins as good as the clone, and
explores within c of it; the base is a black box of which no gradient is taken.

What a chunk remembers is put into the environment (`chunked`): observations are followed by the one that the
chunk began with and by the place in the chunk. So a policy stays a function of its observation,
demonstrations are rows like any other, and TD3 needs no change.

Source: Ankile et al., 2025, https://arxiv.org/abs/2509.19301, section III. That the target is the lowest of
the whole ensemble and not of two drawn from it, and one-step rows, are our simplifications.
"""

import jax.numpy as jnp

from rlx.models.residual import Residual
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def cloning(rollout: Rollout, policy: Residual) -> Algorithm:
  """Trains the base by mean squared distance to the actions of the data; the residual gets no gradient.

  Args:
    rollout: yields transitions of a `chunked` environment, so that each place of a chunk is learnt from.
    policy: `residual`.
  """

  def loss(models: Models, batch: Batch, key: Key):
    del key
    distance = jnp.square(policy.base(models['policy'], batch['observations']) - batch['actions'])
    loss = distance.sum(axis=-1).mean()
    return loss, {'loss/policy': loss}

  return Algorithm(rollout=rollout, loss=loss)
