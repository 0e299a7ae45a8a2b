"""The train step: rollout -> reward -> advantage -> (loss -> update -> track) x n, as one program.

`make_train_step` composes the five functions of an algorithm with an optimizer into a pure function
`state -> (state, metrics)`. Because it is pure, `jax.jit` makes it one program, `repeat` (a scan) makes N
steps a dispatch, and `jax.vmap` makes a population of runs.
"""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax

from rlx import sharding
from rlx.metrics import describe
from rlx.types import (
  NO_MODELS,
  Algorithm,
  Annotate,
  Batch,
  HostRollout,
  Key,
  Metrics,
  Models,
  Rollout,
  Rows,
  State,
  StatefulRollout,
  World,
  stateful,
)
from rlx.unscored import leave_out

TrainStep = Callable[..., tuple[State, Metrics]]  # (state, data=None, frozen={}) -> (state, metrics)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Step:
  """A train step: whole when it is called, and in the pieces between which its rows can leave the device.

  Attributes:
    rollout: begins the world and has the data.
    sample: `(state, data, frozen) -> (rows, world)`.
    reward: `(models, rows, key) -> rows`.
    annotate: `(state, rows, frozen) -> rows`, as the loss takes them; for people to read.
    learn: `(state, rows, data, frozen) -> (state, metrics)`, from rows that have their rewards.
  """

  rollout: StatefulRollout
  sample: Callable[[State, Any, Models], tuple[Rows, World]]
  reward: Callable[[Models, Rows, Key], Rows]
  annotate: Callable[[State, Rows, Models], Rows]
  learn: Callable[[State, Rows, Any, Models], tuple[State, Metrics]]

  def __call__(self, state: State, data: Any = None, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    rows, world = self.sample(state, data, frozen)
    rows = self.scored(state, rows, frozen)
    return self.learn(state.replace(world=world), rows, data, frozen)

  def collect(self, state: State, data: Any = None, frozen: Models = NO_MODELS) -> Rows:
    """The rows that the next train step will learn from: its first half, without the update."""
    rows, _ = self.sample(state, data, frozen)
    return self.annotate(state, self.scored(state, rows, frozen), frozen)

  def scored(self, state: State, rows: Rows, frozen: Models) -> Rows:
    """Rows with their rewards."""
    return self.reward({**frozen, **state.models}, rows, keys_of(state)[1])


def make_train_step(
    algorithm: Algorithm,
    optimizer: optax.GradientTransformation,
    *,
    epochs: int,
    minibatches: int,
    microbatches: int,
) -> Step:
  """Composes an algorithm and an optimizer into `train_step(state) -> (state, metrics)`.

  Args:
    algorithm: the five functions.
    optimizer: applied once a minibatch.
    epochs: passes over each batch.
    minibatches: optimizer updates a pass; divides the rows of the batch, or what they are together.
    microbatches: parts of a minibatch whose gradients are accumulated, to save memory; divides its rows
      likewise. The result does not depend on it.
  Returns:
    The train step. It takes the state, the data of the rollout, and models that never change and are in no
    state (`frozen`). Jit it, donating the state; where `algorithm.reward` is Python on the host, it is cut
    instead (`split.SplitStep`).

  >>> row = {'x': jnp.ones(4)}  # a world that never changes: the batch itself
  >>> def loss(models, batch, key):
  ...   return jnp.mean((models['policy'] * batch['x'] - 3) ** 2), {}
  >>> least_squares = Algorithm(rollout=lambda models, world, key: (row, world), loss=loss)
  >>> optimizer = optax.sgd(0.5)
  >>> train_step = make_train_step(least_squares, optimizer, epochs=1, minibatches=1, microbatches=1)
  >>> state = begin(least_squares, optimizer, {'policy': jnp.zeros(())}, {}, jax.random.key(0))
  >>> state, metrics = jax.jit(train_step)(state)
  >>> float(state.params['policy']), float(metrics['loss/total'])
  (3.0, 9.0)
  """
  learn = functools.partial(
      _learn, algorithm, optimizer, epochs=epochs, minibatches=minibatches, microbatches=microbatches
  )
  return Step(
      rollout=stateful(algorithm.rollout), sample=functools.partial(sampled, algorithm.rollout),
      reward=algorithm.reward,
      annotate=lambda state, batch, frozen=NO_MODELS: algorithm.advantage(
          {**frozen, **state.models}, leave_out(batch), keys_of(state)[2]
      ),
      learn=lambda state, batch, data, frozen=NO_MODELS: learn(state, batch, frozen),
  )


def of_its_own(
    rollout: Rollout, reward: Annotate, learn: Callable[[State, Batch, Models], tuple[State, Metrics]]
) -> Step:
  """The train step of a paper whose updates are not those of `make_train_step`; an algorithm of a config.

  Args:
    rollout: as of an `Algorithm`.
    reward: likewise.
    learn: `(state, batch, frozen) -> (state, metrics)`; it counts no step and need not know of the world.
  """
  rollout = stateful(rollout)

  def counted(state: State, batch: Batch, data: Any, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    batch = leave_out(batch)
    state, metrics = learn(state.replace(world=rollout.observe(state.world, batch)), batch, frozen)
    state = state.replace(step=state.step + 1, slow=rollout.absorb(state.slow, batch))
    return state, {**metrics, **describe(batch)}

  keep = lambda state, batch, frozen=NO_MODELS: batch
  sample = functools.partial(sampled, rollout)
  return Step(rollout=rollout, sample=sample, reward=reward, annotate=keep, learn=counted)


def begin(
    algorithm: Algorithm, optimizer: optax.GradientTransformation, params: Models, slow: Models, key: Key
) -> State:
  """The state before the first step: a fresh optimizer, and the world as the rollout begins it.

  Args:
    algorithm: whose rollout begins the world.
    optimizer: of the trained models.
    params: trained models; not copied.
    slow: lagging models; not copied, so none of them may share its arrays with another where the state is
      donated.
    key: of the run; its noise and that of the world's beginning are split from it.
  """
  run_key, world_key, warm_up_key = jax.random.split(key, 3)
  world = {}
  if isinstance(algorithm.rollout, StatefulRollout):
    world = algorithm.rollout.begin(world_key)
    world = algorithm.rollout.warm_up({**slow, **params}, world, warm_up_key)
  return State(
      step=jnp.int32(0), params=params, slow=slow, opt_state=optimizer.init(params), world=world, key=run_key
  )


def repeat(train_step: TrainStep, num_steps: int) -> TrainStep:
  """`num_steps` train steps as one; the metrics gain a leading axis [num_steps]."""

  def program(state: State, data: Any = None, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    return jax.lax.scan(lambda state, _: train_step(state, data, frozen), state, length=num_steps)

  return program


def collect(algorithm: Algorithm, state: State, data: Any = None, frozen: Models = NO_MODELS) -> Batch:
  """The batch that the next train step will learn from: its first half, without the update."""
  models = {**frozen, **state.models}
  batch, _ = sampled(algorithm.rollout, state, data, frozen)
  batch = algorithm.reward(models, batch, keys_of(state)[1])
  return algorithm.advantage(models, leave_out(batch), keys_of(state)[2])


def keys_of(state: State) -> jax.Array:
  """The keys of this step: rollout, reward, advantage, update."""
  return jax.random.split(jax.random.fold_in(state.key, state.step), 4)


def sampled(
    rollout: Rollout, state: State, data: Any = None, frozen: Models = NO_MODELS
) -> tuple[Rows, World]:
  """What a rollout draws for this step, and the world after it.

  Args:
    rollout: of an algorithm, or of several learners.
    state: whose models and world it sees.
    data: of the rollout.
    frozen: models that are in no state.
  """
  world = state.world if data is None else {**state.world, 'data': data}
  models, key = {**frozen, **state.models}, keys_of(state)[0]
  if isinstance(rollout, HostRollout):
    return rollout(models, {**world, 'at_step': state.step}, key)
  rows, world = rollout(models, world, key)
  return sharding.shard_rows(rows), world


def _learn(
    algorithm: Algorithm,
    optimizer: optax.GradientTransformation,
    state: State,
    batch: Batch,
    frozen: Models = NO_MODELS,
    *,
    epochs: int,
    minibatches: int,
    microbatches: int,
) -> tuple[State, Metrics]:
  """The second half of the step: advantages, then epochs of minibatch updates."""
  _, _, advantage_key, update_key = keys_of(state)
  batch = algorithm.advantage({**frozen, **state.models}, leave_out(batch), advantage_key)
  batch = sharding.shard_rows(batch)
  if isinstance(algorithm.rollout, StatefulRollout):
    state = state.replace(world=algorithm.rollout.observe(state.world, batch))
  order_key, loss_key = jax.random.split(update_key)
  rows = _minibatch_rows(order_key, batch, epochs, minibatches, algorithm.together)
  gradient = _accumulated(
      jax.value_and_grad(_loss_of(algorithm), has_aux=True), microbatches, algorithm.together
  )

  def update(carry, x):
    params, slow, opt_state = carry
    index, indices = x
    pick = lambda array: array.at[indices].get(mode='promise_in_bounds')  # part of a permutation
    minibatch = batch if minibatches == 1 else jax.tree.map(pick, batch)
    key = jax.random.fold_in(loss_key, index)
    minibatch = algorithm.survey({**frozen, **slow, **params}, sharding.shard_rows(minibatch), key)
    (loss, metrics), grads = gradient(params, {**frozen, **slow}, minibatch, key)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    slow = algorithm.track(slow, params, state.step * len(rows) + index)
    metrics = {**metrics, 'loss/total': loss, 'optimizer/grad_norm': optax.tree.norm(grads)}
    return (params, slow, opt_state), metrics

  carry = (state.params, state.slow, state.opt_state)
  (params, slow, opt_state), metrics = jax.lax.scan(update, carry, (jnp.arange(len(rows)), rows))
  if isinstance(algorithm.rollout, StatefulRollout):
    slow = algorithm.rollout.absorb(slow, batch)
  metrics = {**_over_updates(metrics), **describe(batch), **_optimizer_health(opt_state)}
  state = state.replace(step=state.step + 1, params=params, slow=slow, opt_state=opt_state)
  return state, metrics


def _loss_of(algorithm: Algorithm):
  return lambda params, slow, batch, key: algorithm.loss({**slow, **params}, batch, key)


def _minibatch_rows(key, batch, epochs: int, minibatches: int, together: int) -> jax.Array:
  """[epochs * minibatches, rows]: which rows each update sees; every epoch is a fresh permutation.

  Rows that belong together are permuted as one, and stay behind one another.
  """
  num_rows = jax.tree.leaves(batch)[0].shape[0]
  num_units = _units(num_rows, together)
  if num_units % minibatches:
    raise ValueError(
        f'minibatches={minibatches} does not divide the {_count(num_units, together)} of the batch'
    )
  permute = lambda k: jax.random.permutation(k, num_units)
  units = jax.vmap(permute)(jax.random.split(key, epochs))
  rows = units[..., None] * together + jnp.arange(together)[None, None]
  return rows.reshape(epochs * minibatches, -1)


def _units(num_rows: int, together: int) -> int:
  """How many whole units rows are. Raises `ValueError` where the last one is not whole."""
  if num_rows % together:
    raise ValueError(f'{num_rows} rows are no whole number of comparisons of {together} rows')
  return num_rows // together


def _count(num_units: int, together: int) -> str:
  return f'{num_units} rows' if together == 1 else f'{num_units} comparisons (of {together} rows each)'


def _accumulated(gradient, num_parts: int, together: int):
  """`gradient` computed in `num_parts` equal parts of the rows, one after the other, and averaged."""
  if num_parts == 1:
    return gradient

  def split(array: jax.Array) -> jax.Array:
    if (num_units := _units(array.shape[0], together)) % num_parts:
      raise ValueError(
          f'microbatches={num_parts} does not divide the {_count(num_units, together)} of a minibatch'
      )
    return array.reshape(num_parts, array.shape[0] // num_parts, *array.shape[1:])  # columns may be empty

  def accumulated(params, slow, batch, key):
    parts = jax.tree.map(split, batch)
    keys = jax.random.split(key, num_parts)

    def add(total, x):
      (loss, metrics), grads = gradient(params, slow, sharding.shard_rows(x[0]), x[1])
      return jax.tree.map(jnp.add, total, (loss, grads)), metrics

    loss_and_grads = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), (jnp.float32(0), params))
    total, metrics = jax.lax.scan(add, loss_and_grads, (parts, keys))
    loss, grads = jax.tree.map(lambda a: a / num_parts, total)
    return (loss, _combined(metrics)), grads

  return accumulated


def _combined(metrics: Metrics) -> Metrics:
  """Metrics [N] of equal parts as those of the whole: means, but the largest of what is named `x_max`."""
  return {name: (jnp.max if name.endswith('_max') else jnp.mean)(x) for name, x in metrics.items()}


def _over_updates(metrics: Metrics) -> Metrics:
  """Metrics [updates] of a step: combined, but `mismatch/x` of its first update, made with the parameters
  that sampled; behind it, the policy's own movement would be mixed in."""
  first = {name: x[0] for name, x in metrics.items() if name.startswith('mismatch/')}
  return {**_combined(metrics), **first}


def _optimizer_health(opt_state) -> Metrics:
  """How many updates in a row were skipped for being infinite or NaN, if the optimizer counts them."""
  count = optax.tree.get(opt_state, 'notfinite_count', None)
  return {} if count is None else {'optimizer/nonfinite_updates': count.astype(jnp.float32)}
