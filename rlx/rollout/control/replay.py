"""A store of transitions on the device: what happened is learnt from many times.

The store is a tree of arrays with a leading [capacity], written as a ring. It lives in `world`, so it is
saved and resumed with the run, and it is updated in place: a step costs what is written and what is drawn,
however large the store is (`rollout/store.py`).

Rollouts put environments before it: `replay` draws uniformly, `n_step_replay` draws stretches of n steps as
single rows, `stretch_replay` draws them as they are, `prioritised_replay` draws what surprised (from the sum
tree of `priorities.py`), and `hindsight_replay` gives rows goals that their own episodes came to later;
`mixed.py` adds rows of a fixed data set. Two columns are for algorithms that know of them: `spans` [B], the
steps that a row is of, and `weights` [B], its share in the loss. `discounts` and `weights` read them; without
them rows are single steps that count alike.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages.temporal import returns
from rlx.envs.control import stepping
from rlx.envs.control.environment import Environment
from rlx.errors import at_least, between
from rlx.models.networks import Policy
from rlx.rollout.control import priorities
from rlx.rollout.control.hindsight import achieved, uniform_ahead
from rlx.rollout.store import empty, num_rows, rows_at, sample, uniform_places, write
from rlx.types import Batch, Key, Models, StatefulRollout, World

Relabel = Callable[[Batch, jax.Array], Batch]  # (transitions, goals [B, G]) -> transitions


def stretches(store: World, places: jax.Array, *, n: int, num_envs: int, discount: float) -> Batch:
  """The rows at `places` [B] as rows of up to n steps each, for one that begins there.

      R = Σ_{j<k} γ^j r_{t+j},   and the value behind it is that of the observation after step t + k - 1

  k is n, or less where the episode ends before (by the world or by the clock), or where nothing newer is in
  the store.

  Args:
    store: written in blocks of one step of `num_envs` environments.
    places: [B] in the store.
    n: steps of a whole stretch.
    num_envs: environments side by side.
    discount: γ per step.
  Returns:
    A batch with the columns of the store: `rewards` is R; `next_observations, terminated, truncated` are of
    the last step, and all else of the first. And `spans` [B] float32, k.
  Source: Sutton, 1988; as in Hessel et al., 2017, https://arxiv.org/abs/1710.02298, section 3 (n-step).
  """
  rows = rows_at(store, _along(store, places, n, num_envs))
  counts = _same_episode(store, places, rows, num_envs)
  spans = counts.sum(axis=1)
  at = lambda x, step: jax.vmap(lambda row, i: row[i])(x, step)
  first = jax.tree.map(lambda x: x[:, 0], rows)
  last = {name: at(rows[name], spans - 1) for name in ('next_observations', 'terminated', 'truncated')}
  rewards = jnp.where(counts, rows['rewards'], 0)
  total = returns(rewards, jnp.full(rewards.shape, discount))[:, 0]
  return {**first, **last, 'rewards': total, 'spans': spans.astype(jnp.float32)}


def goals_ahead(
    store: World, places: jax.Array, key: Key, *, goal_size: int, horizon: int, num_envs: int
) -> jax.Array:
  """[B, G] what the episode of each row came to later: after 1 to `horizon` actions, each as likely.

  No further than the episode goes, or what is in the store of it. The work is B horizon flags and B rows.

  Args:
    store: written in blocks of one step of `num_envs` environments; observations [S + G] whose first numbers
      are the goal that has been achieved.
    places: [B] in the store.
    key: of the draw.
    goal_size: G.
    horizon: actions, the row's own included.
    num_envs: environments side by side.
  """
  part = lambda *names: {'rows': {name: store['rows'][name] for name in names}}
  along = _along(store, places, horizon, num_envs)
  flags = rows_at(part('terminated', 'truncated'), along)
  left = _same_episode(store, places, flags, num_envs).sum(axis=1)
  ahead = uniform_ahead(key, left)
  last = jnp.take_along_axis(along, ahead[:, None] - 1, axis=1)[:, 0]
  return achieved(rows_at(part('next_observations'), last)['next_observations'], goal_size)


def discounts(batch: Batch, discount: float) -> jax.Array:
  """[B] γ^k (1 - terminated): what the value behind a row counts; k is `spans`, 1 where there are none."""
  factor = discount ** batch['spans'] if 'spans' in batch else discount
  return jnp.where(batch['terminated'], 0, factor)


def weights(batch: Batch) -> jax.Array:
  """[B] what each row counts in the loss: `weights`, 1 where there are none."""
  return batch['weights'] if 'weights' in batch else jnp.ones(batch['rewards'].shape)


def replay(
    env: Environment, policy: Policy, *, num_envs: int, num_steps: int, capacity: int, warmup_steps: int,
    batch_size: int,
) -> StatefulRollout:
  """Steps environments with `models['policy']`, remembers it, and draws from all that is remembered.

  The store begins with `warmup_steps` of uniformly random actions. For several updates a step, draw
  `minibatches` times the rows of one update.

  Args:
    env: one environment.
    policy: how actions are drawn.
    num_envs: environments side by side.
    num_steps: steps of each of them a train step.
    capacity: transitions that are remembered; a multiple of `num_envs`.
    warmup_steps: random transitions before the first train step; a multiple of `num_envs`.
    batch_size: rows that are drawn.
  Returns:
    A `rollout` of batches of transitions [batch_size], with `episode/x` of the episodes that finished last
    and `env/steps`, how many were taken.
  Raises:
    ValueError: a number is not positive, or does not divide.
  """
  _check(num_envs, num_steps, capacity, warmup_steps, batch_size)
  draw = lambda store, key: sample(store, key, batch_size)
  return StatefulRollout(
      begin=_beginning(env, num_envs, capacity, warmup_steps, write),
      draw=_drawing(env, policy, num_steps, write, draw),
      data=None,
      anew=stepping.anew(env),
  )


def n_step_replay(
    env: Environment, policy: Policy, *, n: int, discount: float, num_envs: int, num_steps: int,
    capacity: int, warmup_steps: int, batch_size: int,
) -> StatefulRollout:
  """`replay` whose rows are of up to n steps: see `stretches`.

  Nothing is corrected for the steps behind the first one being an older policy's.

  Args:
    env: one environment.
    policy: how actions are drawn.
    n: steps of a row.
    discount: γ per step, that of the algorithm.
    num_envs: as in `replay`.
    num_steps: as in `replay`.
    capacity: as in `replay`.
    warmup_steps: as in `replay`.
    batch_size: as in `replay`.
  Returns:
    A `rollout` as that of `replay`, with `spans` too.
  Raises:
    ValueError: a number is not positive, or does not divide.
  """
  _check(num_envs, num_steps, capacity, warmup_steps, batch_size)
  _check_spans(n, discount, num_envs, capacity)

  def draw(store: World, key: Key) -> Batch:
    places = uniform_places(store, key, batch_size)
    return stretches(store, places, n=n, num_envs=num_envs, discount=discount)

  return StatefulRollout(
      begin=_beginning(env, num_envs, capacity, warmup_steps, write),
      draw=_drawing(env, policy, num_steps, write, draw),
      data=None,
      anew=stepping.anew(env),
  )


def stretch_replay(
    env: Environment, policy: Policy, *, length: int, num_envs: int, num_steps: int, capacity: int,
    warmup_steps: int, batch_size: int,
) -> StatefulRollout:
  """`replay` whose rows are consecutive steps of one environment, and say how likely their actions were.

  One episode may follow the other in a row: `terminated` and `truncated` say where.

  Args:
    env: one environment.
    policy: how actions are drawn, and what their log-probs are.
    length: steps T of a row.
    num_envs: as in `replay`.
    num_steps: as in `replay`.
    capacity: as in `replay`.
    warmup_steps: as in `replay`.
    batch_size: as in `replay`, rows B.
  Returns:
    A `rollout` as that of `replay`, of stretches [B, T] with `sampler_logprobs`: of the policy that acted,
    for random actions of a uniform one.
  Raises:
    ValueError: a number is not positive, does not divide, or a row is longer than what is there at first.
  """
  _check(num_envs, num_steps, capacity, warmup_steps, batch_size)
  if not 1 <= length <= warmup_steps // num_envs:
    raise ValueError(
        f'length={length}: at least 1, and at most warmup_steps / num_envs = {warmup_steps // num_envs}'
    )

  def scored(logprobs):
    return lambda store, batch: write(store, {**batch, 'sampler_logprobs': logprobs(batch)})

  def draw(store: World, key: Key) -> Batch:
    oldest = jnp.where(store['size'] == capacity, store['next'], 0)
    first = jax.random.randint(key, (batch_size,), 0, store['size'] - (length - 1) * num_envs)
    return rows_at(store, _along(store, (oldest + first) % capacity, length, num_envs))

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    score = lambda batch: policy.score(models['policy'], batch['observations'], batch['actions'])[0]
    return _drawing(env, policy, num_steps, scored(score), draw)(models, world, key)

  at_random = lambda batch: jnp.full(num_envs, env.actions.uniform_logprob)
  begin = _beginning(env, num_envs, capacity, warmup_steps, scored(at_random), columns=('sampler_logprobs',))
  return StatefulRollout(begin=begin, draw=rollout, data=None, anew=stepping.anew(env))


def prioritised_replay(
    env: Environment, policy: Policy, *, alpha: float, beta: float, n: int, discount: float, num_envs: int,
    num_steps: int, capacity: int, warmup_steps: int, batch_size: int, eps: float = 1e-6,
) -> StatefulRollout:
  """`n_step_replay` that draws rows with probability P(i) ∝ (priority + eps)^α, and weighs them for it.

      w_i = (N P(i))^-β / max_j w_j,  over the rows j that are drawn

  The algorithm's advantage slot adds a column `priorities` [B], not negative (such as |δ|), which is written
  to the rows that it came from. What is new has the largest priority that was ever written. In the paper β
  rises to 1 during a run; here it stays.

  Args:
    env: one environment.
    policy: how actions are drawn.
    alpha: 0 draws uniformly (the paper: 0.6 to 0.7).
    beta: 0 corrects nothing, 1 all (the paper: from 0.4 to 1).
    n: as in `n_step_replay`; 1 for single steps.
    discount: as in `n_step_replay`.
    num_envs: as in `replay`.
    num_steps: as in `replay`.
    capacity: as in `replay`.
    warmup_steps: as in `replay`.
    batch_size: as in `replay`.
    eps: without it, what did not surprise once is never seen again.
  Returns:
    A `rollout` as that of `n_step_replay`, with `weights` and `places`, where each row is in the store.
  Raises:
    ValueError: a number is not positive, or does not divide.
  Source: Schaul et al., 2015, https://arxiv.org/abs/1511.05952, eq. 1 and section 3.4.
  """
  _check(num_envs, num_steps, capacity, warmup_steps, batch_size)
  _check_spans(n, discount, num_envs, capacity)
  at_least(0, alpha=alpha, beta=beta, eps=eps)

  def put(store: World, batch: Batch) -> World:
    places = store['next'] + jnp.arange(num_envs)
    first = jnp.full(num_envs, store['highest'])
    return {**write(store, batch), 'tree': priorities.put(store['tree'], places, first)}

  def draw(store: World, key: Key) -> Batch:
    places = priorities.draw(store['tree'], key, batch_size)
    shares = priorities.at(store['tree'], places) / priorities.total(store['tree'])
    corrections = (store['size'] * shares) ** -beta
    batch = stretches(store, places, n=n, num_envs=num_envs, discount=discount)
    return {**batch, 'weights': corrections / corrections.max(), 'places': places}

  def observe(world: World, batch: Batch) -> World:
    store, surprise = world['store'], (batch['priorities'] + eps) ** alpha
    store = {
        **store,
        'tree': priorities.put(store['tree'], batch['places'], surprise),
        'highest': jnp.maximum(store['highest'], surprise.max()),
    }
    return {**world, 'store': store}

  extra = {'tree': priorities.empty(capacity), 'highest': jnp.ones(())}
  return StatefulRollout(
      begin=_beginning(env, num_envs, capacity, warmup_steps, put, extra),
      draw=_drawing(env, policy, num_steps, put, draw),
      data=None,
      anew=stepping.anew(env),
      observe=observe,
  )


def hindsight_replay(
    env: Environment, policy: Policy, *, relabel: Relabel, goal_size: int, share: float, horizon: int,
    num_envs: int, num_steps: int, capacity: int, warmup_steps: int, batch_size: int,
) -> StatefulRollout:
  """`replay` in which a share of the rows has another goal: one that its own episode came to later.

  For any algorithm that learns from single transitions. The goals are the paper's *future* ones, drawn when a
  row is; k of them for each row that keeps its goal is a share of k / (k + 1). Stores keep the goals that
  were wanted.

  Args:
    env: its observations [S + G] begin with the goal that is achieved, and end with the one that is wanted.
    policy: how actions are drawn.
    relabel: the batch as it would have been with other goals, such as `maze.relabel` and `bit_flip.relabel`.
    goal_size: G.
    share: of the rows, in [0, 1] (the authors': k = 4, which is 0.8).
    horizon: how many actions ahead a goal lies at most, the row's own included; a whole episode in the paper.
    num_envs: as in `replay`.
    num_steps: as in `replay`.
    capacity: as in `replay`.
    warmup_steps: as in `replay`.
    batch_size: as in `replay`.
  Returns:
    A `rollout` as that of `replay`, the rows with other goals in front.
  Raises:
    ValueError: a number is not positive, does not divide, or is no share.
  Source: Andrychowicz et al., 2017, https://arxiv.org/abs/1707.01495, algorithm 1 and section 4.5.
  """
  _check(num_envs, num_steps, capacity, warmup_steps, batch_size)
  if goal_size < 1 or not 0 <= share <= 1 or not 1 <= horizon <= capacity // num_envs:
    raise ValueError(
        f'goal_size={goal_size}, share={share}, horizon={horizon}: at least 1, in [0, 1], and from 1 to '
        f'capacity / num_envs = {capacity // num_envs}'
    )
  num = round(share * batch_size)

  def draw(store: World, key: Key) -> Batch:
    places_key, goals_key = jax.random.split(key)
    places = uniform_places(store, places_key, batch_size)
    batch = rows_at(store, places)
    if not num:
      return batch
    goals = goals_ahead(
        store, places[:num], goals_key, goal_size=goal_size, horizon=horizon, num_envs=num_envs
    )
    other = relabel(jax.tree.map(lambda x: x[:num], batch), goals)
    if other['observations'].shape[1:] != batch['observations'].shape[1:]:
      raise ValueError(
          f'goal_size={goal_size}: with such goals relabel makes observations of '
          f'{other["observations"].shape[1:]} numbers, and those of the environment have '
          f'{batch["observations"].shape[1:]}'
      )
    return jax.tree.map(lambda new, old: jnp.concatenate([new, old[num:]]), other, batch)

  return StatefulRollout(
      begin=_beginning(env, num_envs, capacity, warmup_steps, write),
      draw=_drawing(env, policy, num_steps, write, draw),
      data=None,
      anew=stepping.anew(env),
  )


def collect(
    env: Environment, act, agents: stepping.Agents, store: World, key: Key, num_steps: int, write=write
) -> World:
  """Steps all environments `num_steps` times with `act(observations, key) -> actions`, into the store.

  Args:
    env: one environment.
    act: what is done.
    agents: where the environments are.
    store: that is written to.
    key: of the policy and the world.
    num_steps: of each environment.
    write: `(store, transitions) -> store`.
  Returns:
    `{'agents', 'store'}`.
  """

  def step(carry, key: Key):
    agents, store = carry
    action_key, env_key = jax.random.split(key)
    agents, transitions = stepping.advance(env, agents, act(agents.observations, action_key), env_key)
    return (agents, write(store, transitions)), None

  (agents, store), _ = jax.lax.scan(step, (agents, store), jax.random.split(key, num_steps))
  return {'agents': agents, 'store': store}


# --- parts --------------------------------------------------------------------------------------------------


def _beginning(env, num_envs, capacity, warmup_steps, write, extra=None, columns=()):
  """`begin` of a rollout: a store with random transitions.

  Args:
    env: one environment.
    num_envs: environments side by side.
    capacity: of the store.
    warmup_steps: random transitions.
    write: `(store, transitions) -> store`.
    extra: further entries of the store.
    columns: names of further float32 columns [N] of its rows, which `write` fills.
  """

  def begin(key: Key) -> World:
    agents_key, steps_key = jax.random.split(key)
    agents = stepping.begin(env, agents_key, num_envs)
    at_random = lambda observations, key: jax.vmap(env.actions.sample)(jax.random.split(key, num_envs))
    like = jax.eval_shape(lambda: stepping.advance(env, agents, at_random(None, key), key)[1])
    like |= {name: jax.ShapeDtypeStruct((num_envs,), jnp.float32) for name in columns}
    store = {**empty(like, capacity), **(extra or {})}
    return collect(env, at_random, agents, store, steps_key, warmup_steps // num_envs, write)

  return begin


def _drawing(env, policy, num_steps, write, draw):
  """A rollout that steps the environments and then draws with `draw(store, key) -> batch`."""

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    steps_key, sample_key = jax.random.split(key)
    act = lambda observations, key: policy.sample(models['policy'], observations, key)[0]
    world = collect(env, act, world['agents'], world['store'], steps_key, num_steps, write)
    batch = draw(world['store'], sample_key)
    num = num_rows(batch)
    columns = {
        name: jnp.broadcast_to(jnp.nanmean(x), num)
        for name, x in stepping.episode_columns(world['agents']).items()
    }
    columns['env/steps'] = jnp.full(num, float(num_steps * world['agents'].returns.shape[0]))
    return {**batch, **columns}, world

  return rollout


def _along(store, places, n, num_envs):
  """[B, n] the places of n steps of each environment, from `places` on."""
  return (places[:, None] + num_envs * jnp.arange(n)[None]) % num_rows(store['rows'])


def _same_episode(store, places, rows, num_envs):
  """[B, n] bool, True where rows `_along` the store are of the first one's episode, and not of older ones."""
  newest = store['next'] - num_envs + places % num_envs  # of the same environment
  newer = ((newest - places) % num_rows(store['rows'])) // num_envs  # steps behind the first one
  ended = (rows['terminated'] | rows['truncated']).astype(jnp.int32)
  before = jnp.cumsum(ended, axis=1) - ended  # ends before each step
  return (before == 0) & (jnp.arange(ended.shape[1])[None] <= newer[:, None])


def _check_spans(n: int, discount: float, num_envs: int, capacity: int) -> None:
  if n < 1 or n * num_envs > capacity:
    raise ValueError(f'n={n}: at least 1, and at most capacity / num_envs = {capacity // num_envs}')
  between(0, 1, discount=discount)


def _check(num_envs, num_steps, capacity, warmup_steps, batch_size) -> None:
  if min(num_envs, num_steps, warmup_steps, batch_size) < 1 or capacity < warmup_steps:
    raise ValueError(
        f'num_envs={num_envs}, num_steps={num_steps}, warmup_steps={warmup_steps}, batch_size={batch_size}: '
        f'at least 1 each; and capacity={capacity} is at least warmup_steps'
    )
  if warmup_steps % num_envs or capacity % num_envs:
    raise ValueError(
        f'warmup_steps={warmup_steps} and capacity={capacity} must be multiples of num_envs={num_envs}'
    )
