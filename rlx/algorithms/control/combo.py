"""COMBO: SAC in a model of the data, whose critic is pushed down where the model dreams.

    L_Q = L_Q(SAC; d_f) + c · Σ_i ( mean_{s ~ dreams} log ∫ exp Q_i(s, a) da - mean_{s, a ~ data} Q_i(s, a) )

d_f is the whole batch, a share of it real and the rest dreamt in a learnt model by the policy as it is. MOPO
asks the model how unsure it is and takes that off the rewards; here rewards are what the model says, and the
critic itself is lower wherever the policy goes than where the data are. Of CQL it changes which states are
pushed down, dreamt ones for real ones, so that real states are not. The integral is estimated as in `cql`.
The first stage is `mopo.mopo`, which fits the model.

Source: Yu et al., 2021, https://arxiv.org/abs/2102.08363, section 4; that its ρ becomes the log-sum-exp over
actions of CQL(H), at dreamt states, is our reading. That dreams are fresh ones of the policy is as in `mopo`.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.algorithms.control.cql import as_they_are, soft_maximum
from rlx.algorithms.control.mopo import penalised_dreams
from rlx.algorithms.control.sac import sac
from rlx.envs.control.environment import Environment
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout, World


def combo(
    rollout: Rollout,
    env: Environment,
    policy: Policy,
    critic: Network,
    temperature: Network,
    *,
    discount: float,
    target_rate: float,
    target_entropy: float,
    conservatism: float,
    num_actions: int,
) -> Algorithm:
  """The second stage; trains `policy`, `critic` and `temperature`, and `slow['target']` follows.

  Args:
    rollout: yields the rows of `dreams`.
    env: as in `sac`.
    policy: as in `sac`.
    critic: as in `sac`.
    temperature: as in `sac`.
    discount: as in `sac`.
    target_rate: as in `sac`.
    target_entropy: as in `sac`.
    conservatism: c (the authors': 0.5 to 5, by how far the data are from what is wanted).
    num_actions: of each kind for each state, as in `cql`.
  """
  parent = sac(
      rollout, env, policy, critic, temperature, discount=discount, target_rate=target_rate,
      target_entropy=target_entropy,
  )

  def loss(models: Models, batch: Batch, key: Key):
    sac_key, gap_key = jax.random.split(key)
    parent_loss, metrics = parent.loss(models, batch, sac_key)
    highest = soft_maximum(policy, critic, models, batch, gap_key, num_actions, as_they_are)
    done = critic.apply(models['critic'], batch['observations'], batch['actions'])
    # A mean over all rows, each over the share of its kind, so that it does not matter how rows are split.
    signed = jnp.where(batch['offline'][None], -done, highest) / batch['kind_share'][None]
    gap = signed.mean(axis=1).sum()
    return parent_loss + conservatism * gap, {**metrics, 'loss/conservative': gap}

  return Algorithm(rollout=rollout, loss=loss, track=parent.track)


def dreams(
    dataset: Batch, policy: Policy, dynamics: Dynamics, *, horizon: int, real_rows: int, dreams: int
) -> StatefulRollout:
  """The rows of `mopo.penalised_dreams` without a penalty, and which of them are real.

  Args:
    dataset: as there.
    policy: as there.
    dynamics: as there.
    horizon: steps of a dream.
    real_rows: how many real transitions a batch has.
    dreams: how many dreams a batch has; each is `horizon` rows.
  Returns:
    A `rollout` of batches with also `offline` [B], True in real rows, and `kind_share` [B], which share of
    the batch the rows of the same kind are.
  """
  inner = penalised_dreams(
      dataset, policy, dynamics, horizon=horizon, penalty=0.0, real_rows=real_rows, dreams=dreams
  )
  num = real_rows + horizon * dreams

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner.draw(models, world, key)
    del batch['dream/penalty']  # there is none
    real = jnp.arange(num) < real_rows
    share = jnp.where(real, real_rows / num, 1 - real_rows / num)
    return {**batch, 'offline': real, 'kind_share': share}, world

  return dataclasses.replace(inner, draw=draw)
