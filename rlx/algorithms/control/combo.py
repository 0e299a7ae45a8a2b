"""COMBO: SAC in a model of the data, whose critic is pushed down where the model dreams.

    L_Q = L_Q(SAC; d_f) + c · Σ_i ( mean_{s ~ dreams} log ∫ exp Q_i(s, a) da - mean_{s, a ~ data} Q_i(s, a) )

d_f is the whole batch, a share of it real and the rest dreamt in a learnt model by the policy as it is
(`real_and_dreamt`). MOPO asks the model how unsure it is and takes that off the rewards; here rewards are
what the model says, and the critic itself is lower wherever the policy goes than where the data are. Of CQL
it changes which states are pushed down, dreamt ones for real ones, so that real states are not. The integral
is estimated as in `cql`. The first stage is `mopo.mopo`, which fits the model.

Source: Yu et al., 2021, https://arxiv.org/abs/2102.08363, section 4; that its ρ becomes the log-sum-exp over
actions of CQL(H), at dreamt states, is our reading. That dreams are fresh ones of the policy is as in `mopo`.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.losses.actor_critic import as_they_are, soft_maximum
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models


def combo(
    parent: Algorithm, policy: Policy, critic: Network, *, conservatism: float, num_actions: int
) -> Algorithm:
  """The second stage; trains what its parent trains.

  Args:
    parent: `sac`, on the rows of `real_and_dreamt`.
    policy: of the parent, as is the next.
    critic: an ensemble of Q(s, a).
    conservatism: c (the authors': 0.5 to 5, by how far the data are from what is wanted).
    num_actions: of each kind for each state, as in `cql`.
  """

  def loss(models: Models, batch: Batch, key: Key):
    sac_key, gap_key = jax.random.split(key)
    parent_loss, metrics = parent.loss(models, batch, sac_key)
    highest = soft_maximum(
        policy, critic, models, batch, gap_key, num_actions=num_actions, floor=as_they_are
    )
    done = critic.apply(models['critic'], batch['observations'], batch['actions'])
    # A mean over all rows, each over the share of its kind, so that it does not matter how rows are split.
    signed = jnp.where(batch['offline'][None], -done, highest) / batch['kind_share'][None]
    gap = signed.mean(axis=1).sum()
    return parent_loss + conservatism * gap, {**metrics, 'loss/conservative': gap}

  return dataclasses.replace(parent, loss=loss)
