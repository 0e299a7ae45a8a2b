"""Goals in hindsight: whatever a trajectory came to was worth wanting, had somebody wanted it.

A data set of transitions says nothing about goals; they are drawn, for each row anew, from what came behind
it in its own episode or from anywhere. All that is needed of an episode is how many actions it still has from
a row on, itself included: `steps_left` finds that for a whole data set at once, `steps_left_in_ring` for some
rows of a replay store. A place in the future is then a number of actions ahead, 0 (where the row is) to
`left` (where its episode ended), and costs nothing but a draw. `hindsight` is the rollout that puts this
together for a fixed data set.

Observations of a task with goals are a state and behind it a goal; a state begins with what may be a goal.
So `achieved` are the first numbers of a state, and `joined` puts a goal behind it.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.data import transitions as datasets
from rlx.types import Batch, Key, Models, StatefulRollout, World

WAYS = ('current', 'geometric', 'uniform', 'final', 'random')


def steps_left(ends: jax.Array) -> jax.Array:
  """How many actions each row's episode still has, the row's own included: 1 at the last row.

  Args:
    ends: [N] bool, True at the last step of each episode, the rows of an episode one behind the other. An
      episode that the data set breaks off in ends with it.
  Returns:
    [N] int32.
  """
  num = ends.shape[0]
  places = jnp.arange(num)
  last = jnp.where(ends, places, num - 1)
  return jax.lax.cummin(last, reverse=True) - places + 1


def steps_left_in_ring(
    ends: jax.Array, places: jax.Array, newest: jax.Array, *, stride: int, horizon: int
) -> jax.Array:
  """`steps_left` of some rows of a replay store, looking `horizon` actions ahead and no further.

  Args:
    ends: [C] bool, True at the last step of each episode, written as a ring.
    places: [B] int32 rows of the store.
    newest: [] int32 place of the row that was written last.
    stride: rows that lie between an action and the next one of its episode: environments side by side.
    horizon: actions, at least 1; the answer is at most this, and the work is B horizon.
  Returns:
    [B] int32.
  """
  capacity = ends.shape[0]
  written = jnp.mod(newest - places, capacity) // stride  # actions behind each row that are in the store
  ahead = jnp.arange(horizon)
  seen = ends[jnp.mod(places[:, None] + stride * ahead[None], capacity)]
  over = seen | (ahead[None] >= jnp.minimum(written, horizon - 1)[:, None])
  return jnp.argmax(over, axis=1).astype(jnp.int32) + 1


def geometric_ahead(key: Key, left: jax.Array, *, discount: float) -> jax.Array:
  """k >= 1 actions ahead with probability (1 - γ) γ^(k - 1), what would lie behind the end on the end.

  Args:
    key: for the draw.
    left: [B] int32 from `steps_left`.
    discount: γ, at least 0 and less than 1.
  Returns:
    [B] int32 in 1..left.
  """
  uniform = jax.random.uniform(key, left.shape, minval=jnp.finfo(jnp.float32).tiny)
  ahead = jnp.floor(jnp.log(uniform) / jnp.log(max(discount, 1e-30))) + 1
  return jnp.minimum(ahead, left.astype(jnp.float32)).astype(jnp.int32)


def uniform_ahead(key: Key, left: jax.Array) -> jax.Array:
  """[B] int32: 1..left actions ahead, each as likely as the others."""
  return jax.random.randint(key, left.shape, 1, left + 1)


def goal_places(
    key: Key, places: jax.Array, left: jax.Array, num: jax.Array, *, shares: Mapping[str, float],
    discount: float,
) -> tuple[jax.Array, jax.Array]:
  """Where the goals of some rows are taken from, as `state_at` reads it.

  Args:
    key: for the draw.
    places: [B] int32 rows.
    left: [B] int32, what they have of their episodes.
    num: rows among which a random goal is drawn.
    shares: how often a goal is the state of the row itself (`current`), `geometric` or `uniform` ahead in its
      episode, its `final` state, or the state of any row at all (`random`); a way that is not there is never
      taken.
    discount: γ of the geometric ones.
  Returns:
    `(places, ahead)` [B] int32 each: a row and a number of actions behind it.
  Raises:
    ValueError: a way that there is not, or shares that do not sum to 1.
  """
  unknown = sorted(set(shares) - set(WAYS))
  if unknown or abs(sum(shares.values()) - 1) > 1e-6 or min(shares.values()) < 0:
    raise ValueError(f'shares={dict(shares)}: of {WAYS}, none negative, and their sum is 1')
  way_key, *keys = jax.random.split(key, 4)
  ahead = {
      'current': jnp.zeros_like(left), 'geometric': geometric_ahead(keys[0], left, discount=discount),
      'uniform': uniform_ahead(keys[1], left), 'final': left, 'random': jnp.zeros_like(left),
  }
  names = tuple(shares)
  way = jax.random.categorical(way_key, jnp.log(jnp.array([shares[n] for n in names])), shape=left.shape)
  picked = jnp.stack([ahead[name] for name in names])[way, jnp.arange(left.shape[0])]
  anywhere = jax.random.randint(keys[2], places.shape, 0, num)
  is_random = jnp.array([name == 'random' for name in names])[way]
  return jnp.where(is_random, anywhere, places), picked


def state_at(rows: Batch, places: jax.Array, ahead: jax.Array, *, stride: int = 1) -> jax.Array:
  """[B, S]: the state `ahead` actions behind each row.

  It is read from `next_states` of the row before, so that the state in which an episode ended is one too.

  Args:
    rows: `states, next_states` [N, S].
    places: [B] int32.
    ahead: [B] int32, at least 0.
    stride: rows between an action and the next one of its episode, in a ring.
  """
  before = jnp.mod(places + stride * (ahead - 1), rows['states'].shape[0])
  behind = rows['next_states'][jnp.where(ahead > 0, before, places)]
  return jnp.where(ahead[:, None] > 0, behind, rows['states'][places])


def achieved(states: jax.Array, goal_size: int) -> jax.Array:
  """[..., G], which goal a state is."""
  return states[..., :goal_size]


def joined(states: jax.Array, goals: jax.Array) -> jax.Array:
  """[..., S + G], what an agent observes in a state when it wants a goal."""
  return jnp.concatenate([states, goals], axis=-1)


def reached(goals: jax.Array, wanted: jax.Array, *, tolerance: float) -> jax.Array:
  """[...] bool: no number is further from the wanted one than `tolerance`."""
  return jnp.abs(goals - wanted).max(axis=-1) <= tolerance


def with_states(dataset: Batch, goal_size: int) -> Batch:
  """A data set of observations as one of `states, next_states`, without the goals, and `left`."""
  cut = lambda x: x[:, :-goal_size]
  return {
      'states': cut(dataset['observations']), 'next_states': cut(dataset['next_observations']),
      'actions': dataset['actions'], 'left': steps_left(datasets.episode_ends(dataset)),
  }


def hindsight(
    data: Batch, *, goal_size: int, value_goals: Mapping[str, float], policy_goals: Mapping[str, float],
    discount: float, waypoint_steps: int, tolerance: float, batch_size: int,
) -> StatefulRollout:
  """Rows of a fixed data set, each with goals of its own for the values and for the policy.

  Rewards are -1 for an action in a state that is not the goal, and 0 in the goal, where the episode ends
  before it: V(g, g) = 0.

  Args:
    data: with `observations, next_observations` [N, S + G], whose goals are thrown away.
    goal_size: G.
    value_goals: shares of the ways to draw goals of values; see `goal_places`.
    policy_goals: of the policy.
    discount: γ of geometric goals.
    waypoint_steps: a waypoint is so many actions ahead, or at the policy's goal if that is nearer or is not
      in the row's future, in which case it is at the end of the episode at most.
    tolerance: of `reached`.
    batch_size: B.
  Returns:
    A `rollout` of batches with `states, next_states, waypoints` [B, S], `value_goals, policy_goals,
    waypoint_goals, next_goals` [B, G] (the last two are what `waypoints` and `next_states` achieve),
    `actions`, and `rewards, terminated` for the value goals.
  Raises:
    ValueError: a number is not positive.
  """
  num = data['observations'].shape[0]
  if min(goal_size, waypoint_steps, batch_size, num) < 1:
    raise ValueError(
        f'goal_size={goal_size}, waypoint_steps={waypoint_steps}, batch_size={batch_size} of {num} rows: at '
        'least 1 each'
    )

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    del models
    rows, (place_key, value_key, policy_key) = world['data'], jax.random.split(key, 3)
    places = jax.random.randint(place_key, (batch_size,), 0, num)
    left = rows['left'][places]
    goals_at = lambda key, shares: goal_places(key, places, left, num, shares=shares, discount=discount)
    where, ahead = goals_at(policy_key, policy_goals)
    until = jnp.where(where == places, ahead, left)
    value_states = state_at(rows, *goals_at(value_key, value_goals))
    states, waypoints = rows['states'][places], state_at(rows, places, jnp.minimum(until, waypoint_steps))
    next_states, cut = rows['next_states'][places], lambda x: achieved(x, goal_size)
    there = reached(cut(states), cut(value_states), tolerance=tolerance)
    batch = {
        'states': states, 'next_states': next_states, 'waypoints': waypoints,
        'actions': rows['actions'][places], 'value_goals': cut(value_states),
        'policy_goals': cut(state_at(rows, where, ahead)),
        'waypoint_goals': cut(waypoints), 'next_goals': cut(next_states),
        'rewards': there.astype(jnp.float32) - 1, 'terminated': there,
    }
    return batch, {name: x for name, x in world.items() if name != 'data'}

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=with_states(data, goal_size))
