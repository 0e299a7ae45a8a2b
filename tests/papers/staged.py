"""Stages of several seeds side by side, each in one program; the next one is handed the models."""

import jax
import numpy as np

from rlx import step
from rlx.types import stateful


def begun(networks, key, seeds):
  """name -> parameters [seeds, ...] of networks that begin anew."""
  keys = jax.random.split(key, (len(networks), seeds))
  return {name: jax.vmap(net.init)(k) for (name, net), k in zip(networks.items(), keys, strict=True)}


def stage(algorithm, params, slow, *, optimizer, steps, key, epochs=1, minibatches=1):
  """Train steps of every seed.

  Args:
    algorithm: with its rollout.
    params: trained models, [seeds, ...] each.
    slow: models that are held, [seeds, ...] each.
    optimizer: of the trained models.
    steps: how many.
    key: each seed has one of its own, made of it.
    epochs: of the updates, as the next.
    minibatches: see there.
  Returns:
    `(models, metrics)`: [seeds, ...] and [seeds, steps] each.
  """
  train_step = step.make_train_step(
      algorithm, optimizer, epochs=epochs, minibatches=minibatches, microbatches=1
  )

  def one(params, slow, key, data):
    state = step.begin(algorithm, optimizer, params, slow, key)
    state, metrics = step.repeat(train_step, steps)(state, data)
    return state.models, metrics

  keys = jax.random.split(key, jax.tree.leaves(params)[0].shape[0])
  run = jax.jit(jax.vmap(one, (0, 0, 0, None)))
  models, metrics = run(params, slow, keys, stateful(algorithm.rollout).data)
  return models, jax.tree.map(np.asarray, metrics)
