"""Parts of runs in tests that no module of rlx has; configs name them as functions of another package."""

import time

import jax
import jax.numpy as jnp
import optax

from rlx.evaluation.evaluation import Evaluation
from rlx.models.model import Model
from rlx.models.networks import Network
from rlx.step import of_its_own
from rlx.types import Algorithm, StatefulRollout


def seen() -> Evaluation:
  """How many models there are, and whether there is a world; no model is asked."""
  ask = lambda models, world: {'models': jnp.float32(len(models)), 'memories': jnp.float32(len(world))}
  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def seen_slowly(*, seconds: float) -> Evaluation:
  """The same, which takes its time."""

  def _sleep_in_an_evaluation(answer):
    time.sleep(seconds)
    return seen().read(answer)

  return Evaluation(ask=seen().ask, read=_sleep_in_an_evaluation)


def point(env, *, size: int) -> Network:
  """A vector that is trained, whatever the environment."""
  del env
  return Network(init=lambda key: jax.random.normal(key, (size,)), apply=lambda params: params)


def middle(env, *, size: int) -> Network:
  """A point that begins as a number of Python's, whose type is weak."""
  del env
  return Network(init=lambda key: jnp.full(size, 0.5), apply=lambda params: params)


def noise(*, rows: int, size: int) -> StatefulRollout:
  """Noise [rows, size], and two memories: how many batches there were, and the mean of what was seen."""

  def draw(models, world, key):
    del models
    x = jax.random.normal(key, (rows, size))
    return {'x': x, 'seen': jnp.broadcast_to(world['seen'][None], x.shape)}, world

  def observe(world, batch):
    return {'count': world['count'] + 1, 'seen': 0.5 * world['seen'] + 0.5 * batch['x'].mean(axis=0)}

  begin = lambda key: {'count': jnp.int32(0), 'seen': jax.random.normal(key, (size,))}
  return StatefulRollout(begin=begin, draw=draw, data=None, observe=observe)


def around(point, *, rows: int, size: int):
  """Noise around the point as it is: what is drawn depends on the weights that draw."""
  del point

  def draw(models, world, key):
    x = models['point'][None] + jax.random.normal(key, (rows, size))
    return {'x': x, 'seen': jnp.zeros((rows, size))}, world

  return draw


def nearer(rollout, point, *, target: float) -> Algorithm:
  """A point goes to a target, shaken by what is drawn and by what was seen."""
  del point

  def loss(models, batch, key):
    del key
    goal = target + 0.1 * batch['x'] + 0.1 * batch['seen']
    error = jnp.square(models['point'][None] - goal).mean()
    return error, {'place': models['point'].mean(), 'seen': batch['seen'].mean()}

  return Algorithm(rollout=rollout, loss=loss)


def nearer_nan(rollout, point, *, target: float) -> Algorithm:
  """Rows of which a column becomes NaN before the loss."""
  del point, target
  advantage = lambda models, batch, key: {**batch, 'seen': batch['seen'] * jnp.nan}
  loss = lambda models, batch, key: (jnp.square(models['point'] + batch['seen']).mean(), {})
  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)


def nearer_together(rollout, point, *, target: float) -> Algorithm:
  """The same for the mean of a population: members see each other by the name of their axis."""
  parent = nearer(rollout, point, target=target)

  def advantage(models, batch, key):
    del models, key
    everyone = jax.lax.all_gather(batch['x'], 'population')
    return {**batch, 'seen': jnp.broadcast_to(everyone.mean(axis=(0, 1))[None], batch['x'].shape)}

  return Algorithm(rollout=rollout, advantage=advantage, loss=parent.loss)


def nearer_by_hand(rollout, point, optimizer, *, target: float):
  """The same as a train step of its own."""
  parent = nearer(rollout, point, target=target)

  def learn(state, batch, frozen):
    loss = lambda params: parent.loss({**frozen, **state.slow, **params}, batch, None)
    grads, metrics = jax.grad(loss, has_aux=True)(state.params)
    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    return state.replace(params=optax.apply_updates(state.params, updates), opt_state=opt_state), metrics

  return of_its_own(rollout, lambda models, batch, key: batch, learn)


def none():
  """The reward that says nothing."""
  return lambda models, batch, key: batch


def often(rows):
  """A stop rule: over behind the sixth step."""
  return len(rows) >= 6


def after_six():
  """Makes it."""
  return often


def between(first, second, *, share: float) -> Model:
  """A decoder made of two others of one shape: the mean of their weights."""
  mean = lambda x, y: share * x + (1 - share) * y
  return Model(
      functions=first, init=None, stands_on=('first', 'second'), axes=first.axes,
      view=lambda own, models: jax.tree.map(mean, models['first'], models['second']),
  )
