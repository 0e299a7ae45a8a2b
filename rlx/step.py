"""The train step: rollout -> reward -> advantage -> (loss -> update -> track) x n, as one program.

`make_train_step` composes the five functions of an algorithm with an optimizer into a pure function
`state -> (state, metrics)`. Because it is pure, `jax.jit` makes it one program, `repeat` (a scan) makes N
steps a dispatch, and `jax.vmap` makes a population of runs.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx import sharding
from rlx.metrics import describe
from rlx.types import Algorithm, Annotate, Batch, Key, Metrics, Models, State, StatefulRollout, World

TrainStep = Callable[..., tuple[State, Metrics]]  # (state, data=None, frozen={}) -> (state, metrics)
NO_MODELS: Models = MappingProxyType({})


def make_train_step(
    algorithm: Algorithm,
    optimizer: optax.GradientTransformation,
    *,
    epochs: int,
    minibatches: int,
    microbatches: int,
    host_reward: bool = False,
    axes: Mapping[str, sharding.Axes] = MappingProxyType({}),
) -> TrainStep:
  """Composes an algorithm and an optimizer into `train_step(state) -> (state, metrics)`.

  Args:
    algorithm: the five functions.
    optimizer: applied once a minibatch.
    epochs: passes over each batch.
    minibatches: optimizer updates a pass; divides the rows of the batch.
    microbatches: parts of a minibatch whose gradients are accumulated, to save memory; divides its rows.
      The result does not depend on it.
    host_reward: True where `algorithm.reward` is Python on the host. The step is then a `SplitStep`: two
      compiled halves with one round trip between them, not to be put under `jit`, `scan` or `vmap`.
    axes: model -> what the axes of its parameters mean, for sampling on a mesh; models that are not in it are
      left where they are.
  Returns:
    The train step. Jit it (donating the state) unless `host_reward`. It takes the state, the data of the
    rollout, and models that never change and are in no state (`frozen`).

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
  sample = functools.partial(_sample, algorithm, axes)
  learn = functools.partial(
      _learn, algorithm, optimizer, epochs=epochs, minibatches=minibatches, microbatches=microbatches
  )
  if host_reward:
    advantage = lambda state, batch, frozen=NO_MODELS: algorithm.advantage(
        {**frozen, **state.models}, batch, _keys(state)[2]
    )
    return SplitStep(
        sample=jax.jit(sample), reward=algorithm.reward, advantage=jax.jit(advantage),
        learn=jax.jit(learn, donate_argnums=0),
    )

  def train_step(state: State, data: Any = None, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    batch, world = sample(state, data, frozen)
    batch = algorithm.reward({**frozen, **state.models}, batch, _keys(state)[1])
    return learn(state.replace(world=world), batch, frozen)

  return train_step


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


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SplitStep:
  """A train step whose reward is Python: sample (compiled), reward (host), learn (compiled).

  Attributes:
    sample: `(state, data, frozen) -> (batch, world)`.
    reward: the `reward` slot; it gets NumPy arrays.
    advantage: `(state, batch, frozen) -> batch`; `learn` begins with it.
    learn: `(state, batch, frozen) -> (state, metrics)`; the state is donated.
  """

  sample: Callable[[State, Any, Models], tuple[Batch, World]]
  reward: Annotate
  advantage: Callable[[State, Batch, Models], Batch]
  learn: Callable[[State, Batch, Models], tuple[State, Metrics]]

  def __call__(
      self, state: State, data: Any = None, frozen: Models = NO_MODELS
  ) -> tuple[State, Metrics]:
    frozen = dict(frozen)
    batch, world = self.sample(state, data, frozen)
    return self._score_and_learn(state, batch, world, frozen, policy_lag=0)

  def repeat(
      self, state: State, data: Any, num_steps: int, *, overlap: bool, frozen: Models = NO_MODELS
  ) -> tuple[State, Metrics]:
    """`num_steps` train steps; the metrics gain a leading axis [num_steps].

    Args:
      state: it is donated.
      data: of the rollout.
      num_steps: N.
      overlap: while the host scores a batch, the device samples the next one, with the policy as it is
        before the update: every batch but the first is then one update old, as `rollout/policy_lag` says.
        It begins and ends with the call, so that nothing is in flight in a state that is saved.
      frozen: models that are in no state.
    """
    rows, following, frozen = [], None, dict(frozen)
    for index in range(num_steps):
      if following is None:
        batch, world = self.sample(state, data, frozen)
      else:
        batch, world = following, state.world
      if overlap and index + 1 < num_steps:  # dispatched now, and running while the host works
        following, world = self.sample(state.replace(step=state.step + 1, world=world), data, frozen)
      lag = int(overlap and index > 0)
      state, metrics = self._score_and_learn(state, batch, world, frozen, policy_lag=lag)
      rows.append(metrics)
    return state, jax.tree.map(lambda *x: np.stack(x), *jax.device_get(rows))

  def collect(self, state: State, data: Any, frozen: Models) -> Batch:
    """As `collect` below."""
    batch, _ = self.sample(state, data, frozen)
    return self.advantage(state, self._score(state, batch, frozen), frozen)

  def _score(self, state: State, batch: Batch, frozen: Models) -> Batch:
    models = {**frozen, **state.models}
    return jax.device_put(self.reward(models, jax.device_get(batch), _keys(state)[1]))

  def _score_and_learn(self, state, batch, world, frozen, *, policy_lag: int) -> tuple[State, Metrics]:
    batch = self._score(state, batch, frozen)
    state, metrics = self.learn(state.replace(world=world), batch, frozen)
    return state, {**metrics, 'rollout/policy_lag': jnp.float32(policy_lag)}


def repeat(train_step: TrainStep, num_steps: int) -> TrainStep:
  """`num_steps` train steps as one; the metrics gain a leading axis [num_steps]."""

  def program(state: State, data: Any = None, frozen: Models = NO_MODELS) -> tuple[State, Metrics]:
    return jax.lax.scan(lambda state, _: train_step(state, data, frozen), state, length=num_steps)

  return program


def collect(
    algorithm: Algorithm, state: State, data: Any = None, frozen: Models = NO_MODELS,
    axes: Mapping[str, sharding.Axes] = MappingProxyType({}),
) -> Batch:
  """The batch that the next train step will learn from: its first half, without the update."""
  models = {**frozen, **state.models}
  batch, _ = _sample(algorithm, axes, state, data, frozen)
  batch = algorithm.reward(models, batch, _keys(state)[1])
  return algorithm.advantage(models, batch, _keys(state)[2])


def _keys(state: State) -> jax.Array:
  """The keys of this step: rollout, reward, advantage, update."""
  return jax.random.split(jax.random.fold_in(state.key, state.step), 4)


def _sample(
    algorithm: Algorithm, axes: Mapping[str, sharding.Axes], state: State, data: Any = None,
    frozen: Models = NO_MODELS,
) -> tuple[Batch, World]:
  world = state.world if data is None else {**state.world, 'data': data}
  models = sharding.gather({**frozen, **state.models}, axes)
  batch, world = algorithm.rollout(models, world, _keys(state)[0])
  return sharding.shard_rows(batch), world


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
  _, _, advantage_key, update_key = _keys(state)
  batch = sharding.shard_rows(algorithm.advantage({**frozen, **state.models}, batch, advantage_key))
  if isinstance(algorithm.rollout, StatefulRollout):
    state = state.replace(world=algorithm.rollout.observe(state.world, batch))
  order_key, loss_key = jax.random.split(update_key)
  rows = _minibatch_rows(order_key, batch, epochs, minibatches)
  gradient = _accumulated(jax.value_and_grad(_loss_of(algorithm), has_aux=True), microbatches)

  def update(carry, x):
    params, slow, opt_state = carry
    index, indices = x
    pick = lambda array: array.at[indices].get(mode='promise_in_bounds')  # part of a permutation
    minibatch = batch if minibatches == 1 else jax.tree.map(pick, batch)
    key = jax.random.fold_in(loss_key, index)
    (loss, metrics), grads = gradient(params, {**frozen, **slow}, sharding.shard_rows(minibatch), key)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    slow = algorithm.track(slow, params, state.step * len(rows) + index)
    metrics = {**metrics, 'loss/total': loss, 'optimizer/grad_norm': optax.tree.norm(grads)}
    return (params, slow, opt_state), metrics

  carry = (state.params, state.slow, state.opt_state)
  (params, slow, opt_state), metrics = jax.lax.scan(update, carry, (jnp.arange(len(rows)), rows))
  metrics = {**_over_updates(metrics), **describe(batch), **_optimizer_health(opt_state)}
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
