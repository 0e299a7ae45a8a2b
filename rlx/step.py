"""The train step: rollout -> reward -> advantage -> (loss -> update -> track) x n, as one program.

`make_train_step` composes the five functions of an algorithm with an optimizer into a pure function
`state -> (state, metrics)`. Because it is pure, `jax.jit` makes it one program, `repeat` (a scan) makes N
steps a dispatch, and `jax.vmap` makes a population of runs.
"""

from collections.abc import Callable
import functools

import jax
import jax.numpy as jnp
import optax

from rlx import sharding
from rlx.metrics import describe
from rlx.types import Algorithm, Batch, Metrics, State, World

TrainStep = Callable[[State], tuple[State, Metrics]]


def make_train_step(
    algorithm: Algorithm,
    optimizer: optax.GradientTransformation,
    *,
    epochs: int,
    minibatches: int,
    microbatches: int,
    host_reward: bool = False,
) -> TrainStep:
  """Composes an algorithm and an optimizer into `train_step(state) -> (state, metrics)`.

  Args:
    algorithm: the five functions.
    optimizer: applied once a minibatch.
    epochs: passes over each batch.
    minibatches: optimizer updates a pass; divides the rows of the batch.
    microbatches: parts of a minibatch whose gradients are accumulated, to save memory; divides its rows.
      The result does not depend on it.
    host_reward: True where `algorithm.reward` is Python on the host. The step is then two compiled halves
      with one round trip between them, and cannot itself be put under `jit`, `scan` or `vmap`.
  Returns:
    The train step. Jit it (donating the state) unless `host_reward`.
  """
  sample = functools.partial(_sample, algorithm)
  learn = functools.partial(
      _learn, algorithm, optimizer, epochs=epochs, minibatches=minibatches, microbatches=microbatches
  )

  def train_step(state: State) -> tuple[State, Metrics]:
    batch, world = sample(state)
    batch = algorithm.reward(state.models, batch, _keys(state)[1])
    return learn(state.replace(world=world), batch)

  if not host_reward:
    return train_step

  sample, learn = jax.jit(sample), jax.jit(learn, donate_argnums=0)

  def split_train_step(state: State) -> tuple[State, Metrics]:
    batch, world = sample(state)
    batch = algorithm.reward(state.models, jax.device_get(batch), _keys(state)[1])
    return learn(state.replace(world=world), jax.device_put(batch))

  return split_train_step


def repeat(train_step: TrainStep, num_steps: int) -> TrainStep:
  """`num_steps` train steps as one; the metrics gain a leading axis [num_steps]."""
  return lambda state: jax.lax.scan(lambda state, _: train_step(state), state, length=num_steps)


def collect(algorithm: Algorithm, state: State) -> Batch:
  """The batch that the next train step will learn from: its first half, without the update."""
  batch, _ = _sample(algorithm, state)
  batch = algorithm.reward(state.models, batch, _keys(state)[1])
  return algorithm.advantage(state.models, batch, _keys(state)[2])


def _keys(state: State) -> jax.Array:
  """The keys of this step: rollout, reward, advantage, update."""
  return jax.random.split(jax.random.fold_in(state.key, state.step), 4)


def _sample(algorithm: Algorithm, state: State) -> tuple[Batch, World]:
  batch, world = algorithm.rollout(sharding.gather(state.models), state.world, _keys(state)[0])
  return sharding.shard_rows(batch), world


def _learn(
    algorithm: Algorithm,
    optimizer: optax.GradientTransformation,
    state: State,
    batch: Batch,
    *,
    epochs: int,
    minibatches: int,
    microbatches: int,
) -> tuple[State, Metrics]:
  """The second half of the step: advantages, then epochs of minibatch updates."""
  _, _, advantage_key, update_key = _keys(state)
  batch = sharding.shard_rows(algorithm.advantage(state.models, batch, advantage_key))
  order_key, loss_key = jax.random.split(update_key)
  rows = _minibatch_rows(order_key, batch, epochs, minibatches)
  gradient = _accumulated(jax.value_and_grad(_loss_of(algorithm), has_aux=True), microbatches)

  def update(carry, x):
    params, slow, opt_state = carry
    index, indices = x
    minibatch = batch if minibatches == 1 else jax.tree.map(lambda a: a[indices], batch)
    key = jax.random.fold_in(loss_key, index)
    (loss, metrics), grads = gradient(params, slow, sharding.shard_rows(minibatch), key)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    slow = algorithm.track(slow, params, state.step * len(rows) + index)
    metrics = {**metrics, 'loss/total': loss, 'optimizer/grad_norm': optax.tree.norm(grads)}
    return (params, slow, opt_state), metrics

  carry = (state.params, state.slow, state.opt_state)
  (params, slow, opt_state), metrics = jax.lax.scan(update, carry, (jnp.arange(len(rows)), rows))
  metrics = {**jax.tree.map(jnp.mean, metrics), **describe(batch), **_optimizer_health(opt_state)}
  state = state.replace(step=state.step + 1, params=params, slow=slow, opt_state=opt_state)
  return state, metrics


def _loss_of(algorithm: Algorithm):
  return lambda params, slow, batch, key: algorithm.loss({**slow, **params}, batch, key)


def _minibatch_rows(key, batch, epochs: int, minibatches: int) -> jax.Array:
  """[epochs * minibatches, rows]: which rows each update sees; every epoch is a fresh permutation."""
  num_rows = jax.tree.leaves(batch)[0].shape[0]
  if num_rows % minibatches:
    raise ValueError(f'minibatches={minibatches} does not divide the {num_rows} rows of the batch')
  permute = lambda k: jax.random.permutation(k, num_rows)
  return jax.vmap(permute)(jax.random.split(key, epochs)).reshape(epochs * minibatches, -1)


def _accumulated(gradient, num_parts: int):
  """`gradient` computed in `num_parts` equal parts of the rows, one after the other, and averaged."""
  if num_parts == 1:
    return gradient

  def split(array: jax.Array) -> jax.Array:
    if array.shape[0] % num_parts:
      raise ValueError(
          f'microbatches={num_parts} does not divide the {array.shape[0]} rows of a minibatch'
      )
    return array.reshape(num_parts, -1, *array.shape[1:])

  def accumulated(params, slow, batch, key):
    parts = jax.tree.map(split, batch)
    keys = jax.random.split(key, num_parts)
    part = lambda x: gradient(params, slow, sharding.shard_rows(x[0]), x[1])
    first = jax.tree.map(lambda a: a[0], (parts, keys))
    total = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(part, first))
    add = lambda total, x: (jax.tree.map(jnp.add, total, part(x)), None)
    total, _ = jax.lax.scan(add, total, (parts, keys))
    return jax.tree.map(lambda a: a / num_parts, total)

  return accumulated


def _optimizer_health(opt_state) -> Metrics:
  """How many updates in a row were skipped for being infinite or NaN, if the optimizer counts them."""
  count = optax.tree.get(opt_state, 'notfinite_count', None)
  return {} if count is None else {'optimizer/nonfinite_updates': count.astype(jnp.float32)}
