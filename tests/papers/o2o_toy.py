"""A point mass, data of a mediocre driver, and runs of several seeds whose stages hand their models on."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from rlx import lens, step
from rlx.data import behaviours
from rlx.envs.control.pointmass import pointmass, sparse_pointmass
from rlx.evaluation import episodes as evaluation
from rlx.models import networks
from rlx.types import stateful

MAX_STEPS = 40
GOAL = (0.5, 0.5)
PLACE = dict(max_steps=MAX_STEPS, start=(-0.5, -0.5), start_radius=0.3, goal=GOAL, obstacles=())
ENV = pointmass(friction=0.5, **PLACE)
SPARSE = sparse_pointmass(friction=0.5, **PLACE)
SHAPE = dict(hidden=(32, 32), activation='relu')
SAC = dict(discount=0.95, target_rate=0.02, target_entropy=-1.0)
ADAM = optax.adam(1e-3)
SEEDS = 5


def driven(env=ENV, *, gain=0.6, noise=0.3, random_share=0.0, num_envs=50, num_steps=MAX_STEPS):
  """A data set of a driver who finds the goal slowly."""
  return behaviours.steered(
      env, goal=GOAL, gain=gain, damping=1.0, noise=noise, random_share=random_share, num_envs=num_envs,
      num_steps=num_steps, discount=SAC['discount'], seed=0,
  )


class Nets(NamedTuple):
  policy: networks.Policy
  critic: networks.Network
  temperature: networks.Network


def nets(env=ENV, *, num=2, layer_norm=True, temperature=0.1) -> Nets:
  return Nets(
      networks.squashed_gaussian(env, **SHAPE),
      networks.critics(env, num=num, layer_norm=layer_norm, **SHAPE),
      networks.positive(initial=temperature),
  )


def fresh(networks_by_name, key, seeds=SEEDS):
  """Models of networks that begin anew, [seeds, ...] each, and a target of the critic where there is one."""

  def one(key):
    keys = jax.random.split(key, len(networks_by_name))
    models = {name: net.init(k) for (name, net), k in zip(networks_by_name.items(), keys, strict=True)}
    return models | ({'target': jax.tree.map(jnp.copy, models['critic'])} if 'critic' in models else {})

  return jax.vmap(one)(jax.random.split(key, seeds))


def stage(
    algorithm, models, *, policy, chunks, steps, env=ENV, minibatches=1, optimizer=ADAM, slow=('target',),
    key=1, episodes=16, seen=None,
):
  """`chunks` times `steps` train steps of every seed, in one program.

  `seen: models -> models` adds those that are made of others, such as a policy.

  Returns:
    `(models, returns [seeds, chunks + 1], metrics [seeds, chunks])`: the mean return of the policy's mode in
    `env`, before the first and after each chunk, and metrics averaged over each chunk.
  """
  algorithm = lens.through(seen, algorithm) if seen else algorithm
  train_step = step.make_train_step(algorithm, optimizer, epochs=1, minibatches=minibatches, microbatches=1)

  def played(models):
    params = (seen(models) if seen else models)['policy']
    act = lambda params, observations, key: policy.mode(params, observations)
    return evaluation.play(env, act, params, jax.random.key(9), episodes, MAX_STEPS)['return'].mean()

  def one(models, key, data):
    params = {name: x for name, x in models.items() if name not in slow}
    lagging = {name: x for name, x in models.items() if name in slow}
    state = step.begin(algorithm, optimizer, params, lagging, key)

    def chunk(state, _):
      state, metrics = step.repeat(train_step, steps)(state, data)
      return state, (played(state.models), jax.tree.map(jnp.mean, metrics))

    state, (returns, metrics) = jax.lax.scan(chunk, state, length=chunks)
    first = played(models)
    return state.models, jnp.concatenate([first[None], returns]), metrics

  seeds = jax.tree.leaves(models)[0].shape[0]
  keys = jax.random.split(jax.random.key(key), seeds)
  data = stateful(algorithm.rollout).data
  models, returns, metrics = jax.jit(jax.vmap(one, (0, 0, None)))(models, keys, data)
  return models, np.asarray(returns), jax.tree.map(np.asarray, metrics)
