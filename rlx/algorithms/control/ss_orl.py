"""SS-ORL: where actions are missing, an inverse model fills them in, and any offline algorithm goes on.

    L = mean over labelled rows ‖a - f(s, s')‖²        (`ss_orl`, the first stage)
    â = f(s, s') where a row has no action             (`proxy_actions`, a rollout for any algorithm)

The second stage is the offline algorithm as it is, with another rollout.

Source: Zheng et al., 2022, https://arxiv.org/abs/2210.06518, algorithm 1. Their inverse model also sees some
steps before s, and is a Gaussian; this one sees s and s' alone.
"""

import dataclasses

import jax.numpy as jnp

from rlx.data import transitions as datasets
from rlx.data.transitions import Dataset
from rlx.envs.control.environment import Environment
from rlx.models import dynamics
from rlx.models.networks import Network
from rlx.rollout.control.offline import offline
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout, World


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


def proxy_actions(
    dataset: Batch, env: Environment, inverse: Network, *, batch_size: int
) -> StatefulRollout:
  """`offline`, with the actions of `models['inverse']` for rows that have none of their own.

  Args:
    dataset: with `labelled` [N] bool; what stands for missing actions is never looked at.
    env: says which kind of actions.
    inverse: the action between two observations.
    batch_size: rows that are drawn.
  """
  source = offline(dataset, batch_size=batch_size)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = source.draw(models, world, key)
    guessed = dynamics.inferred_actions(env, inverse, models['inverse'], batch)
    actions = batch['actions']
    labelled = batch['labelled'].reshape(-1, *(1,) * (actions.ndim - 1))
    return {**batch, 'actions': jnp.where(labelled, actions, guessed)}, world

  return dataclasses.replace(source, draw=draw)


def partly_labelled(env: Environment, *, data: Dataset, labelled_every: int) -> Batch:
  """A data set of whose episodes only each n-th has actions; those of the others are 0, and `labelled` False.

  Args:
    env: one environment.
    data: makes the whole data set.
    labelled_every: n, at least 1.
  Raises:
    ValueError: `labelled_every` is not positive.
  """
  if labelled_every < 1:
    raise ValueError(f'labelled_every={labelled_every}: each n-th episode, for an n of 1 or more')
  rows = data(env)
  labelled = (jnp.cumsum(datasets.episode_starts(rows)) - 1) % labelled_every == 0
  wide = labelled.reshape(-1, *(1,) * (rows['actions'].ndim - 1))
  return {**rows, 'actions': jnp.where(wide, rows['actions'], 0), 'labelled': labelled}
