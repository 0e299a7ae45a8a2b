"""Transitions that are dreamt: what a policy does in a learnt model of the world, from states of the data."""

import dataclasses

import jax
import jax.numpy as jnp

from rlx import ahead
from rlx.data import transitions as datasets
from rlx.envs.control.wrappers import with_return
from rlx.models import dynamics as models_of_the_world
from rlx.models.dynamics import Dynamics
from rlx.models.networks import Policy
from rlx.types import Batch, Key, Models, StatefulRollout, World


def penalised_dreams(
    data: Batch, policy: Policy, dynamics: Dynamics, *, horizon: int, penalty: float, real_rows: int,
    dreams: int,
) -> StatefulRollout:
  """Real transitions, and those that `models['policy']` dreams in `models['dynamics']`.

      r̃(s, a) = r̂(s, a) - λ u(s, a),   u = max_i ‖Σ_i(s, a)‖

  Dreams branch off from states of the data and are a few steps long; one that ends goes on from another state
  of the data. Each batch has fresh ones of the policy as it is.

  Args:
    data: real transitions.
    policy: how actions are drawn.
    dynamics: the forward model.
    horizon: steps of a dream.
    penalty: λ, reward for each unit of u, which is in units of observations and rewards.
    real_rows: how many real transitions a batch has.
    dreams: how many dreams a batch has; each is `horizon` rows.
  Returns:
    A `rollout` of batches of real_rows + dreams horizon transitions, with `dream/penalty` of each row.
  Raises:
    ValueError: a number is not positive, or negative in case of `penalty`.
  """
  if min(horizon, real_rows, dreams) < 1 or penalty < 0:
    raise ValueError(
        f'horizon={horizon}, real_rows={real_rows}, dreams={dreams}: at least 1 each; penalty={penalty}: '
        'at least 0'
    )

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    rows = {name: world['data'][name] for name in datasets.COLUMNS}
    real_key, start_key, dream_key = jax.random.split(key, 3)
    pick = lambda key, num: jax.random.randint(key, (num,), 0, rows['rewards'].shape[0])
    fresh = lambda key: rows['observations'][pick(key, dreams)]

    def step(observations: jax.Array, key: Key):
      action_key, world_key, again_key = jax.random.split(key, 3)
      actions, _ = policy.sample(models['policy'], observations, action_key)
      at = (dynamics, models['dynamics'], observations, actions)
      new, rewards, ended = models_of_the_world.step(*at, world_key)
      unsure = penalty * models_of_the_world.largest_deviation(*at)
      row = {
          'observations': observations, 'actions': actions, 'rewards': rewards - unsure,
          'next_observations': new, 'terminated': ended, 'truncated': jnp.zeros_like(ended),
      }
      return jnp.where(ended[:, None], fresh(again_key), new), (row, unsure)

    _, (dreamt, unsure) = ahead.scan(step, fresh(start_key), jax.random.split(dream_key, horizon))
    places = pick(real_key, real_rows)
    join = lambda real, dream: jnp.concatenate([real[places], dream.reshape(-1, *dream.shape[2:])])
    batch = jax.tree.map(join, rows, dreamt)
    batch['dream/penalty'] = jnp.concatenate([jnp.zeros(real_rows), unsure.reshape(-1)])
    return batch, {name: x for name, x in world.items() if name != 'data'}

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=data)


def real_and_dreamt(
    data: Batch, policy: Policy, dynamics: Dynamics, *, horizon: int, real_rows: int, dreams: int
) -> StatefulRollout:
  """The rows of `penalised_dreams` without a penalty, and which of them are real.

  Args:
    data: as there.
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
      data, policy, dynamics, horizon=horizon, penalty=0.0, real_rows=real_rows, dreams=dreams
  )
  num = real_rows + horizon * dreams

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner.draw(models, world, key)
    del batch['dream/penalty']  # there is none
    real = jnp.arange(num) < real_rows
    share = jnp.where(real, real_rows / num, 1 - real_rows / num)
    return {**batch, 'offline': real, 'kind_share': share}, world

  return dataclasses.replace(inner, draw=draw)


def best_dreams(
    data: Batch, behaviour: Policy, dynamics: Dynamics, *, num: int, max_steps: int, kept_share: float,
    batch_size: int,
) -> StatefulRollout:
  """Steps of the dreams that earned most, drawn uniformly; they are dreamt once, when the stage begins.

  Args:
    data: of a `commanded` environment; a dream begins where one of its episodes did.
    behaviour: the policy of the data.
    dynamics: the forward model.
    num: dreams.
    max_steps: when a dream is over in any case.
    kept_share: of the dreams, in (0, 1].
    batch_size: rows that are drawn.
  Returns:
    A `rollout` of batches with `observations, actions`, `returns_to_go` [B], what was earned from the row
    on, and `dream/return`, the mean over the dreams that are kept.
  Raises:
    ValueError: no dream is kept.
  """
  num_kept = int(num * kept_share)
  if not 0 < num_kept <= num:
    raise ValueError(f'kept_share={kept_share} of num={num} dreams: keep at least 1, and at most all')

  begun = jnp.cumsum(datasets.episode_starts(data))  # how many episodes have, up to each row
  observations = with_return(data['observations'], 0.0)

  def warm_up(models: Models, world: World, key: Key) -> World:
    del world
    start_key, dream_key = jax.random.split(key)
    episodes = jax.random.randint(start_key, (num,), 1, begun[-1] + 1)
    starts = observations[jnp.searchsorted(begun, episodes)]
    rows = dream(behaviour, dynamics, models, starts, dream_key, max_steps=max_steps)
    earned, best = jax.lax.top_k(rows['returns_to_go'][:, 0], num_kept)
    return {'rows': jax.tree.map(lambda x: x[best], rows), 'earned': earned.mean()}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    dream_key, step_key = jax.random.split(key)
    which = jax.random.randint(dream_key, (batch_size,), 0, num_kept)
    alive = world['rows']['alive'][which]
    when = jax.random.randint(step_key, (batch_size,), 0, alive.sum(axis=1))
    batch = {name: x[which, when] for name, x in world['rows'].items() if name != 'alive'}
    return {**batch, 'dream/return': jnp.broadcast_to(world['earned'], batch_size)}, world

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None, warm_up=warm_up)


def dream(
    behaviour: Policy, dynamics: Dynamics, models: Models, starts: jax.Array, key: Key, *, max_steps: int
) -> Batch:
  """What the behaviour does in the model, from some observations [B, O] of a `commanded` environment on.

  Returns:
    `observations` [B, T, O], `actions` [B, T, ...], `rewards, returns_to_go` [B, T], undiscounted,
    and `alive` [B, T] bool, False for steps behind the end.
  """

  def step(carry, key: Key):
    observations, alive = carry
    action_key, world_key = jax.random.split(key)
    actions, _ = behaviour.sample(models['behaviour'], observations, action_key)
    new, rewards, ended = models_of_the_world.step(
        dynamics, models['dynamics'], observations, actions, world_key
    )
    rewards = jnp.where(alive, rewards, 0)
    row = {'observations': observations, 'actions': actions, 'rewards': rewards, 'alive': alive}
    return (with_return(new, 0.0), alive & ~ended), row

  alive = jnp.ones(starts.shape[0], bool)
  _, rows = ahead.scan(step, (starts, alive), jax.random.split(key, max_steps))
  rows = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), rows)
  return {**rows, 'returns_to_go': jax.lax.cumsum(rows['rewards'], axis=1, reverse=True)}
