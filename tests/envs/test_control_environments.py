"""Control environments: the contract over all of them, and the dynamics of each by hand."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pilots
import pytest

from rlx.data import transitions as datasets
from rlx.envs.control import (
  acrobot,
  cartpole,
  driving,
  insertion,
  levels,
  maze,
  motor,
  mountain_car,
  pendulum,
  pointmass,
  quadrotor,
  trading,
  treasure,
)
from rlx.envs.control.conformance import check_environment
from rlx.envs.control.environment import (
  Continuous,
  Discrete,
  Environment,
  step_or_reset,
  timestep,
  with_time_limit,
)
from rlx.evaluation import episodes as evaluation
from tests.cases import cases

KEY = jax.random.key(0)
STEPS = 40
LONGER = 130  # what the time limit takes off is all that these can earn
NO_STEPS = jnp.int32(0)
# The second function of a module shares its code.
CHECKED = {
    'cartpole': cartpole.cartpole(max_steps=STEPS),
    'pendulum': pendulum.pendulum(max_steps=STEPS),
    'pointmass': pointmass.pointmass(**{**pilots.MASS, 'max_steps': STEPS, 'obstacles': ((0, 0, 0.3),)}),
    'maze': maze.maze(layout='u', starts='SM', goals='G', max_steps=STEPS),
    'insertion': insertion.insertion(max_steps=STEPS, drift=0.06, tolerance=0.08),
    'mountain_car': mountain_car.mountain_car(max_steps=LONGER),
    'continuous_mountain_car': mountain_car.continuous_mountain_car(max_steps=STEPS),
    'acrobot': acrobot.acrobot(max_steps=LONGER),
    'quadrotor': quadrotor.quadrotor(
        **{**pilots.QUADROTOR, 'max_steps': STEPS, 'noise': 0.1, 'randomisation': 0.2}
    ),
    'driving': driving.driving(max_steps=STEPS, route_length=50.0, num_cars=1),
    'motor': motor.motor(max_steps=STEPS, jump_probability=0.1),
    'levels': levels.levels(size=5, first_level=0, num_levels=10, max_steps=STEPS),
    'trading': trading.trading(**{**pilots.MARKET, 'max_steps': STEPS, 'num_assets': 2}),
    'treasure': treasure.treasure(max_steps=STEPS, treasure_weight=1.0, time_weight=1.0),
}
SIBLINGS = {
    'sparse_pointmass': pointmass.sparse_pointmass(**{**pilots.MASS, 'max_steps': STEPS}),
    'grid_maze': maze.grid_maze(layout='u', starts='S', goals='G', max_steps=STEPS),
    'tabular_maze': maze.tabular_maze(layout='u', starts='S', goals='G', max_steps=STEPS),
    'shaped_driving': driving.shaped_driving(max_steps=STEPS, route_length=50.0, num_cars=0),
}


# To compile these takes as long as all the others.
BIG = ('quadrotor', 'driving', 'levels', 'acrobot', 'motor', 'mountain_car')


@pytest.mark.parametrize(
    'name', [pytest.param(name, marks=pytest.mark.slow if name in BIG else ()) for name in CHECKED]
)
def test_environment_keeps_the_contract(name):
  check_environment(CHECKED[name], num_steps=LONGER if name in ('mountain_car', 'acrobot') else STEPS)


@pytest.mark.slow
@pytest.mark.parametrize('name', SIBLINGS)
def test_sibling_keeps_the_contract(name):
  check_environment(SIBLINGS[name], num_steps=STEPS)


@pytest.mark.slow
@pytest.mark.parametrize('name', pilots.FLOWN)
def test_scores_are_0_for_random_actions_and_100_for_the_expert(name):
  """256 episodes each; apart by the error of a mean over episodes, and by what rounding took off a number."""
  env, expert = pilots.FLOWN[name]
  for act, known in ((datasets.random_actions(env), env.random_return), (expert, env.expert_return)):
    play = jax.jit(
        lambda key, act=act: evaluation.play(
            env, lambda params, o, k: act(o, k), None, key, 256, 1000
        )
    )
    returns = np.asarray(play(jax.random.key(1))['return'])
    error = returns.std() / len(returns) ** 0.5
    assert abs(returns.mean() - known) < 4 * error + 0.02 * (env.expert_return - env.random_return), known


# --- what the contract refuses ------------------------------------------------------------------------------


def walk(*, start=None, **changes):
  """A walk on a line that ends beyond 1, with other fields where something is to be broken."""

  def reset(key):
    x = jax.random.uniform(key) if start is None else jnp.float32(start)
    return x, x[None]

  def step(x, action, key):
    del key
    new = x + 0.3 * jnp.clip(action[0], -1, 1)
    return timestep(new, new[None], -jnp.abs(new), terminated=jnp.abs(new) > 1, place=new)

  env = Environment(
      reset=reset, step=step, observation_shape=(1,), actions=Continuous(1), random_return=-1.0,
      expert_return=0.0,
  )
  return dataclasses.replace(env, **changes)


def altered(env, alter):
  """The environment with `alter(timestep) -> timestep` after each step."""
  return dataclasses.replace(env, step=lambda state, action, key: alter(env.step(state, action, key)))


def limited(**changes):
  return with_time_limit(walk(**changes), 5)


def noisy(x, action, key):
  new = x + 0.3 * jnp.clip(action[0], -1, 1) + 0.1 * jax.random.normal(key)
  return timestep(new, new[None], -jnp.abs(new), terminated=jnp.abs(new) > 1)


def renewed(env):
  """Begins again by itself."""

  def step(state, action, key):
    new, state, observation = step_or_reset(env, state, action, key)
    return new._replace(state=state, observation=observation)

  return dataclasses.replace(env, step=step)


def unclipped(x, action, key):
  new = x + 0.3 * action[0]
  return timestep(new, new[None], -jnp.abs(new), terminated=jnp.abs(new) > 1)


def branching(x, action, key):
  return noisy(x, -action if x > 0 else action, key)


def of_its_own(x, action, key):
  noise = jax.random.normal(jax.random.key(3))
  new = x + 0.3 * jnp.clip(action[0], -1, 1) + noise
  return timestep(new, new[None], -jnp.abs(new))


def ending_with_the_clock():
  inner = limited()
  return altered(
      inner, lambda new: new._replace(terminated=new.ended, truncated=jnp.zeros((), bool))
  )


def drawn_while_tracing(env):
  random = np.random.default_rng(0)
  return altered(env, lambda new: new._replace(reward=new.reward + np.float32(random.uniform(1, 2))))


def naming_as_it_goes(env):
  count = itertools.count()
  return altered(env, lambda new: new._replace(info={f'place{next(count)}': new.reward}))


BROKEN = {  # what is said -> the environment
    "actions='left'; it needs": limited(actions='left'),
    'an expert earns more': limited(expert_return=-1.0),
    'the observation of reset is float32': limited(observation_shape=(2,)),
    'step is float32(); it needs float32(1,)': altered(
        limited(), lambda new: new._replace(observation=new.observation[0])
    ),
    'reward is int32()': altered(limited(), lambda new: new._replace(reward=new.reward.astype(int))),
    'truncated is float32()': altered(limited(), lambda new: new._replace(truncated=new.reward)),
    "info['place'] is float32(1,)": altered(
        limited(), lambda new: new._replace(info={'place': new.observation})
    ),
    "info['return'] is the name of what rlx measures itself": altered(
        limited(), lambda new: new._replace(info={'return': new.reward})
    ),
    'info has the key 3': altered(limited(), lambda new: new._replace(info={3: new.reward})),
    'observation_shape=1; it needs a tuple': limited(observation_shape=1),
    "expert_return='high'; numbers": limited(expert_return='high'),
    'step returns a tuple': altered(limited(), tuple),
    'the state is': altered(walk(), lambda new: new._replace(state=new.observation)),
    'step cannot be traced: TracerBoolConversionError': limited(step=branching),
    'step draws random numbers, but not from the key': limited(step=of_its_own),
    'names do not change': naming_as_it_goes(limited()),
    'the observation of reset is not finite': with_time_limit(walk(start=np.nan), 5),
    'reward is not finite': altered(limited(), lambda new: new._replace(reward=jnp.sqrt(new.reward))),
    'steps are terminated and truncated': altered(
        limited(), lambda new: new._replace(truncated=new.truncated | new.terminated)
    ),
    'goes on after its time limit of 5': with_time_limit(walk(), 6),
    'a time limit truncates': ending_with_the_clock(),
    'a step behind the time limit': renewed(limited()),
    'the same keys give another reward': drawn_while_tracing(limited()),
    'depends on the key only where it ends': with_time_limit(renewed(walk()), 5),
    'episodes end with the sight': with_time_limit(renewed(walk(start=0.5)), 5),
    'the same ones clipped': limited(step=unclipped),
}


def test_the_environment_to_break_is_fine():
  check_environment(limited(), num_steps=5)
  check_environment(limited(step=noisy), num_steps=5)


@pytest.mark.parametrize('message', cases(BROKEN, at_once=list(BROKEN)[::3]))
def test_broken_environment_is_refused(message):
  with pytest.raises(ValueError) as error:
    check_environment(BROKEN[message], num_steps=5)
  assert message in str(error.value)
  assert '\n' not in str(error.value)


# --- dynamics by hand ---------------------------------------------------------------------------------------


def rolled(env, act, num_envs, num_steps):
  return jax.jit(lambda: datasets.roll_out(env, act, KEY, num_envs=num_envs, num_steps=num_steps))()


def course(env, act, state, num_steps):
  """The timesteps [num_steps] of a policy from a state within the clock."""

  def step(carry, key):
    state, observation = carry
    new = env.step(state, act(observation[None], key)[0], key)
    return (new.state, new.observation), new

  def run():
    observation = levels._paint(*state) if isinstance(state, tuple) else state
    return jax.lax.scan(step, ((state, NO_STEPS), observation), jax.random.split(KEY, num_steps))[1]

  return jax.jit(run)()


def after(env, state, action, steps=1):
  """The timestep after doing the same from a state of the environment within the clock."""
  action = jnp.asarray(action, jnp.float32 if isinstance(env.actions, Continuous) else jnp.int32)
  state = (state, NO_STEPS)
  step = jax.jit(env.step)
  for key in jax.random.split(KEY, steps):
    new = step(state, action, key)
    state = new.state
  return new


def test_cartpole():
  """At rest and pushed right: (F/m = 9.0909), θ̈ = -9.0909 / (0.5 (4/3 - 0.1/1.1)), ẍ = F/m - 0.05 θ̈ / 1.1."""
  env = CHECKED['cartpole']
  np.testing.assert_allclose(
      after(env, jnp.zeros(4), 1).observation, [0, 0.02 * 9.756098, 0, -0.02 * 14.634146], rtol=1e-5
  )
  assert not after(env, jnp.array([0, 0, 0.2094, 0]), 1).terminated
  assert after(env, jnp.array([0, 0, 0.2095, 0]), 1).terminated
  assert after(env, jnp.array([-2.41, 0, 0, 0]), 1).terminated


def test_pendulum():
  """Upright at rest, full torque of 2: θ̈ = 3 · 2, cost 0.001 · 2²; and hanging it costs π²."""
  env = CHECKED['pendulum']
  new = after(env, jnp.zeros(2), [1.0])
  np.testing.assert_allclose(new.reward, -0.004)
  np.testing.assert_allclose(new.observation, [np.cos(0.015), np.sin(0.015), 0.3], rtol=1e-5)
  np.testing.assert_allclose(after(env, jnp.array([3 * jnp.pi, 0]), [0.0]).reward, -np.pi**2, rtol=1e-5)


def test_pointmass():
  env = CHECKED['pointmass']
  new = after(env, jnp.array([0.5, -0.5, 0, 0]), [1.0, -2.0])
  np.testing.assert_allclose(new.observation, [0.51, -0.51, 0.1, -0.1], rtol=1e-5)
  np.testing.assert_allclose(new.reward, -np.hypot(0.19, 1.21), rtol=1e-5)
  coasting = after(env, jnp.array([0.5, -0.5, 0.1, 0]), [0.0, 0.0])
  np.testing.assert_allclose(coasting.observation[2], 0.1 - 0.1 * 0.5 * 0.1, rtol=1e-5)
  at_wall = after(env, jnp.array([0.99, 0, 0.5, 0.2]), [0.0, 0.0])
  np.testing.assert_allclose(at_wall.observation, [1, 0.019, 0, 0.19], rtol=1e-5)
  at_obstacle = after(env, jnp.array([-0.31, 0, 0.5, 0.2]), [0.0, 0.0])
  np.testing.assert_allclose(at_obstacle.observation, [-0.31, 0, 0, 0], rtol=1e-5)
  sparse = SIBLINGS['sparse_pointmass']
  for x, arrived in ((0.59, False), (0.61, True)):
    new = after(sparse, jnp.array([x, 0.7, 0, 0]), [0.0, 0.0])
    assert (float(new.reward), bool(new.terminated), float(new.info['success'])) == (arrived,) * 3


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(friction=-1.0), 'friction=-1.0'),
        (dict(goal=(1.5, 0.0)), r'goal=\(1.5, 0.0\) is outside'),
        (dict(obstacles=((0.7, 0.6, 0.2),)), r'goal=\(0.7, 0.7\) meets the obstacle \(0.7, 0.6, 0.2\)'),
    ],
)
def test_pointmass_refuses_places_that_cannot_be(changes, message):
  with pytest.raises(ValueError, match=message):
    pointmass.pointmass(**{**pilots.MASS, **changes})


def test_maze_walls_stop_one_axis():
  """In the top left cell of `corridor`, 16 cells wide: the way up is closed, the way right is not."""
  env = maze.maze(layout='corridor', starts='S', goals='G', max_steps=STEPS)
  start, goal = jnp.array([-1.5, 0.0]), jnp.array([1.5, 0.0])
  new = after(env, jnp.concatenate([start, goal]), [1.0, -1.0])
  np.testing.assert_allclose(new.observation, [-1.4, -0.1, 1.5, 0.0], atol=1e-6)
  new = after(env, jnp.concatenate([start, goal]), [1.0, -1.0], steps=2)
  np.testing.assert_allclose(new.observation, [-1.3, -0.1, 1.5, 0.0], atol=1e-6)
  assert new.reward == 0 and not new.terminated
  new = after(env, jnp.array([1.35, 0, 1.5, 0]), [1.0, 0.0])
  assert new.reward == 1 and new.terminated


@pytest.mark.parametrize(
    'layout, starts, goals, begin, end, moves',
    [
        ('u', 'S', 'G', (-2, -1), (-2, 1), 10), ('corridor', 'S', 'G', (-7.5, 0), (7.5, 0), 15),
        ('stitch', 'S', 'M', (-3, -2), (-1, 0), 4), ('stitch', 'M', 'G', (-1, 0), (3, 2), 6),
    ],
)
def test_shortest_moves_arrive_in_the_moves_that_a_layout_shows(layout, starts, goals, begin, end, moves):
  """Cells are counted from the middle. In `stitch`, the halves have the row of M alone in common."""
  env = maze.grid_maze(layout=layout, starts=starts, goals=goals, max_steps=STEPS)
  state = maze.CELL * jnp.array([*begin, *end], jnp.float32)
  steps = course(env, maze.shortest_moves(layout), state, moves)
  np.testing.assert_array_equal(steps.terminated, np.arange(1, moves + 1) == moves)
  np.testing.assert_array_equal(steps.reward, steps.terminated)
  rows = np.round(np.asarray(steps.observation[:, 1]) / maze.CELL)
  assert layout != 'stitch' or (rows.max() <= 0 if goals == 'M' else rows.min() >= 0)


def test_a_table_sees_which_cell_and_which_goal():
  """`u` has eleven free cells, row by row: S is the first, M the fifth and G the seventh."""
  env = maze.tabular_maze(layout='u', starts='S', goals='G', max_steps=STEPS)
  state, seen = env.reset(jax.random.key(0))
  np.testing.assert_array_equal(np.flatnonzero(seen), [0, 11 + 6])
  for cell in (1, 2, 3, 4, 4):
    new = env.step(state, 0, jax.random.key(0))
    state = new.state
    np.testing.assert_array_equal(np.flatnonzero(new.observation), [cell, 11 + 6])
  two = maze.CELL * jnp.array([[-2.0, -1, -2, 1], [2, 0, 0, -1]])
  one_by_one = jnp.stack([maze.one_hot_cells('u', x) for x in two])
  np.testing.assert_array_equal(maze.one_hot_cells('u', two), one_by_one)


def test_relabelled_transitions_arrive_where_their_goals_are():
  """Three steps of 0.1 to the right; the goal becomes where the second one led."""
  observations = jnp.array([[0.0, 0, 1, 1], [0.1, 0, 1, 1], [0.2, 0, 1, 1]])
  batch = {
      'observations': observations, 'next_observations': observations + jnp.array([[0.1, 0, 0, 0]]),
      'rewards': jnp.zeros(3), 'terminated': jnp.zeros(3, bool), 'truncated': jnp.array([0, 1, 1], bool),
      'actions': jnp.ones((3, 2)),
  }
  goals = jnp.broadcast_to(maze.achieved(batch['next_observations'])[1][None] + 0.05, (3, 2))
  new = maze.relabel(batch, goals)
  np.testing.assert_array_equal(new['rewards'], [0, 1, 1])
  np.testing.assert_array_equal(new['terminated'], [False, True, True])
  np.testing.assert_array_equal(new['truncated'], [False, False, False])
  for name in ('observations', 'next_observations'):
    np.testing.assert_array_equal(maze.achieved(new[name]), maze.achieved(batch[name]))
    np.testing.assert_array_equal(maze.goal_of(new[name]), goals)
  same = maze.relabel(batch, maze.goal_of(batch['observations']))
  jax.tree.map(np.testing.assert_array_equal, same, batch)


@pytest.mark.parametrize(
    'layout, goals, message',
    [
        ('##\n#S', 'S', 'neither a name'), ('v', 'S', 'neither a name'), ('u', 'X', "marks 'X'"),
        ('#####\n#S#G#\n#####', 'G', 'no way leads'),
    ],
)
def test_maze_refuses_layouts_that_cannot_be_played(layout, goals, message):
  with pytest.raises(ValueError, match=message):
    maze.maze(layout=layout, starts='S', goals=goals, max_steps=STEPS)


def test_mountain_car():
  """From -0.5 with the engine forward: v = 0.001 - 0.0025 cos(-1.5) = 0.00082316."""
  env = CHECKED['mountain_car']
  np.testing.assert_allclose(
      after(env, jnp.array([-0.5, 0]), 2).observation, [-0.49917684, 0.00082316], rtol=1e-4
  )
  new = after(env, jnp.array([-1.19, -0.07]), 0)
  np.testing.assert_allclose(new.observation, [-1.2, 0], rtol=1e-6)
  assert [bool(after(env, jnp.array([x, 0.05]), 2).terminated) for x in (0.4, 0.47)] == [False, True]
  env = CHECKED['continuous_mountain_car']
  new = after(env, jnp.array([0.44, 0.05]), [0.5])
  np.testing.assert_allclose(new.reward, 100 - 0.1 * 0.25, rtol=1e-6)
  assert new.terminated
  np.testing.assert_allclose(after(env, jnp.array([-0.5, 0]), [-0.5]).reward, -0.025, rtol=1e-6)


def test_acrobot_keeps_its_energy_without_torque():
  """½ θ̇ᵀ M θ̇ + potential; from 0.8 rad for 2 s; one torque of 1 for a step changes it by τ Δθ₂."""
  env = CHECKED['acrobot']

  def energy(o):
    cos1, sin1, cos2, sin2, first, second = np.asarray(o, np.float64)
    m11, m12, m22 = 0.25 + 1.25 + cos2 + 2, 0.25 + 0.5 * cos2 + 1, 1.25
    kinetic = 0.5 * (m11 * first**2 + 2 * m12 * first * second + m22 * second**2)
    return kinetic - 9.8 * (0.5 * cos1 + cos1 + 0.5 * (cos1 * cos2 - sin1 * sin2))

  begin = jnp.array([0.8, -0.3, 0, 0])
  o = [np.cos(0.8), np.sin(0.8), np.cos(0.3), -np.sin(0.3), 0, 0]
  for steps in (1, 10):
    assert abs(energy(after(env, begin, 1, steps).observation) - energy(o)) < 0.02
  pushed = after(env, begin, 2)
  work = float(pushed.state[0][1] + 0.3)
  assert abs(work) > 0.005
  assert abs(energy(pushed.observation) - energy(o) - work) < 0.002
  assert pushed.reward == -1
  over = after(env, jnp.array([3.1, 0.0, 0, 0]), 1)
  assert over.terminated and over.reward == 0


def hovering(history=2):
  """The vehicle at the origin at rest."""
  past = jnp.full((history, 2), quadrotor.HOVER_ACTION)
  return quadrotor._Vehicle(jnp.zeros(6), jnp.full(2, quadrotor.HOVER_ROTOR), jnp.ones(3), past)


def test_quadrotor():
  env = quadrotor.quadrotor(**pilots.QUADROTOR)
  still = after(env, hovering(), [quadrotor.HOVER_ACTION] * 2, steps=3)
  pose = quadrotor.privileged(still.observation)[: quadrotor.NUM_POSE]
  np.testing.assert_allclose(pose, [0, 0, 0, 1, 0, 0, 0], atol=1e-5)
  np.testing.assert_allclose(still.reward, 1, rtol=1e-5)
  # The rotors go 0.02 / 0.05 of the way to full speed, and lift (2 r² - 1) g.
  up = after(env, hovering(), [1.0, 5.0])
  rotor = quadrotor.HOVER_ROTOR + 0.4 * (1 - quadrotor.HOVER_ROTOR)
  np.testing.assert_allclose(up.state[0].rotors, rotor, rtol=1e-5)
  np.testing.assert_allclose(up.state[0].pose[4], 0.02 * (2 * rotor**2 - 1) * 9.81, rtol=1e-4)
  np.testing.assert_allclose(up.state[0].pose[5], 0, atol=1e-6)
  assert after(env, hovering(), [0.0, 1.0]).state[0].pose[5] > 0
  np.testing.assert_array_equal(quadrotor.seen(up.observation)[-2:], [1, 1])
  lost = hovering()._replace(pose=jnp.array([0, -1.51, 0, 0, 0, 0]))
  assert after(env, lost, [0.0, 0.0]).terminated


def test_scores_are_between_random_and_expert():
  env = CHECKED['quadrotor']
  np.testing.assert_allclose(env.score(env.random_return), 0)
  np.testing.assert_allclose(env.score(np.array([env.expert_return])), [100])


def test_hover_reward_can_be_had_again_with_other_costs():
  env = CHECKED['quadrotor']
  states, observations = jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 64))
  actions = jnp.linspace(-2, 2, 128).reshape(64, 2)
  new = jax.jit(jax.vmap(env.step))(states, actions, jax.random.split(KEY, 64))
  again = quadrotor.hover_reward(new.observation, actions, **quadrotor.REWARD_COSTS)
  np.testing.assert_allclose(again, new.reward, rtol=1e-5, atol=1e-5)
  free = dict.fromkeys(quadrotor.REWARD_COSTS, 0.0)
  np.testing.assert_array_equal(quadrotor.hover_reward(new.observation, actions, **free), 1)
  views = quadrotor.seen(observations)[:, :7], quadrotor.privileged(observations)[:, :7]
  assert 0.08 < float(jnp.std(views[0] - views[1])) < 0.12, 'the noise of 0.1 is in what is seen alone'
  parts = np.abs(quadrotor.privileged(observations)[:, -3:] - 1)
  assert 0.15 < parts.max() < 0.2 and np.unique(parts).size > 150


def on_the_road(*, car, others, bend=0.0):
  """A world whose curvature is `bend` at s = 0, where a cosine has its top."""
  road = driving._Road(jnp.array([bend, 0.0]), jnp.array([jnp.pi / 2, 0.0]))
  return driving._World(jnp.array(car), road, jnp.array([*others, [2000.0, 0.0, 0.0]]))


def test_driving_pays_progress_times_faults():
  """Straight on at 5 m/s, 0.2 s a step: 1 m of a route of 50 m; each fault takes its share."""
  env = CHECKED['driving']
  other = [30.0, 0.0, 1.0]
  new = after(env, on_the_road(car=[0.0, 0, 0, 5], others=[other]), [0.0, 0.0])
  np.testing.assert_allclose(new.reward, 2, rtol=1e-5)
  np.testing.assert_allclose(new.info['route_completion'], 1 / 50, rtol=1e-5)
  np.testing.assert_allclose(new.observation, [0, 0, 0.5, 0, 0, 0, 29.2 / 50, 0, 0.1], atol=1e-5)
  at_the_edge = after(env, on_the_road(car=[0.0, 3.6, 0, 5], others=[other]), [0.0, 0.0])
  np.testing.assert_allclose(at_the_edge.reward, 1, rtol=1e-5)
  fast = after(env, on_the_road(car=[0.0, 0, 0, 12], others=[other]), [0.0, 0.0])
  np.testing.assert_allclose(fast.reward, 100 * 2.4 / 50 * 0.8, rtol=1e-5)
  harsh = after(env, on_the_road(car=[0.0, 0, 0, 10], others=[other]), [0.5, 0.0])
  np.testing.assert_allclose(harsh.reward, 100 * 2 / 50 * 0.5, rtol=1e-5)
  # Left in a bend of 0.02 / m: going straight on turns right relative to the road.
  bend = after(env, on_the_road(car=[0.0, 0, 0, 5], others=[other], bend=0.02), [0.0, 0.0])
  np.testing.assert_allclose(bend.state[0].car[2], -0.02, rtol=1e-4)


def test_accidents_and_arrivals_end_a_drive():
  env = CHECKED['driving']
  hit = after(env, on_the_road(car=[10.0, 0, 0, 5], others=[[15.0, 1.0, 0.0]]), [0.0, 0.0])
  beside = after(env, on_the_road(car=[10.0, 0, 0, 5], others=[[15.0, 2.1, 0.0]]), [0.0, 0.0])
  off = after(env, on_the_road(car=[10.0, 4.1, 0, 5], others=[[40.0, 0, 0.0]]), [0.0, 0.0])
  there = after(env, on_the_road(car=[49.5, 0, 0, 5], others=[[30.0, 0, 0.0]]), [0.0, 0.0])
  ends = [(bool(x.terminated), float(x.info['success'])) for x in (hit, beside, off, there)]
  assert ends == [(True, 0), (False, 0), (True, 0), (True, 1)]
  np.testing.assert_allclose(there.reward, 100 * 0.5 / 50, rtol=1e-4)


def test_shaped_driving_pays_for_the_speed_that_is_wanted_and_charges_for_the_end():
  """The limit, 10 m/s, is wanted, and 10 m behind the middle of a car two fifths of it; a hit costs 1 + v."""
  env = SIBLINGS['shaped_driving']
  near = after(env, on_the_road(car=[0.0, 0, 0, 4], others=[[10.8, 0, 0]]), [0.0, 0.0])
  np.testing.assert_allclose(near.reward, 1, rtol=1e-5)
  stop = after(env, on_the_road(car=[0.0, 0, 0, 0], others=[[8.0, 0, 0]]), [0.0, 0.0])
  np.testing.assert_allclose(stop.reward, 1, rtol=1e-5)
  free = after(env, on_the_road(car=[0.0, 1, 0.1, 8], others=[[10.0, -1.5, 0]]), [0.0, 0.0])
  d, heading = free.state[0].car[1:3]
  np.testing.assert_allclose(free.reward, 1 - 0.2 - d / 2 - heading, rtol=1e-5)
  hit = after(env, on_the_road(car=[0.0, 0, 0, 10], others=[[6.0, 0, 0]]), [0.0, 0.0])
  np.testing.assert_allclose(hit.reward, 1 - 1 - 1 - 10, rtol=1e-5)
  off = after(env, on_the_road(car=[0.0, 4.1, 0, 10], others=[[30.0, 0, 0]]), [0.0, 0.0])
  np.testing.assert_allclose(off.reward, 1 - 4.1 / 2 - 1, rtol=1e-5)


@pytest.mark.parametrize('voltage', [60.0, -60.0, 12.0])
def test_motor_follows_its_differential_equation(voltage):
  """100 steps of the integrator against 100,000 Euler steps in float64."""
  current, speed = 10.0, 50.0
  num = 100_000
  for _ in range(num):
    load = 0.05 * np.clip(speed, -1, 1) + 1e-3 * speed + 2.5e-4 * speed * abs(speed)
    changes = (voltage - 0.3 * current - 5e-3 * current * speed) / 5e-3, (5e-3 * current**2 - load) / 0.1
    current, speed = current + 0.1 / num * changes[0], speed + 0.1 / num * changes[1]
  electric = jax.jit(lambda: motor.integrate(jnp.array([10.0, 50.0]), voltage, 0.1, 400))()
  np.testing.assert_allclose(electric, [current, speed], rtol=1e-3)


def test_motor_trips_at_its_limits():
  env = CHECKED['motor']
  drive = lambda current, speed: motor._Drive(jnp.array([current, speed]), jnp.float32(20.0))
  tripped = after(env, drive(59.0, 10.0), [1.0])
  assert tripped.terminated and tripped.reward < -motor.TRIP_COST
  assert after(env, drive(0.0, 301.0), [0.0]).terminated
  new = after(env, drive(20.0, 10.0), [0.5])
  assert not new.terminated
  np.testing.assert_allclose(new.reward, -abs(new.state[0].electric[0] - 20) / 60, rtol=1e-5)


@pytest.mark.slow
def test_levels_are_functions_of_their_numbers_and_can_be_solved():
  size, num = 6, 200
  drawn = jax.jit(jax.vmap(lambda number: levels.level(number, size)))(jnp.arange(num))
  walls = np.asarray(drawn[0] > 0.5)
  assert (np.asarray(drawn[1]) != np.asarray(drawn[2])).any(axis=1).all()
  assert len(np.unique(walls.reshape(num, -1), axis=0)) > 0.95 * num
  assert 0.2 < walls.mean() < 0.35
  env = levels.levels(size=size, first_level=7, num_levels=2, max_steps=STEPS)
  run = jax.jit(jax.vmap(lambda *state: course(env, levels.shortest_moves, state, 2 * size).terminated))
  assert np.asarray(run(*drawn)).any(axis=1).all()
  # The instance has levels 7 and 8, and no other.
  seen = np.asarray(jax.jit(jax.vmap(env.reset))(jax.random.split(KEY, 16))[1][..., 2])
  same = (seen[:, None] == np.asarray(drawn[0])[None]).all(axis=(2, 3))
  assert np.flatnonzero(same.any(axis=0)).tolist() == [7, 8]


def test_walls_of_a_level_stop():
  shades = jnp.zeros((5, 5)).at[0, 1].set(0.9)
  state = (shades, jnp.array([0, 0]), jnp.array([1, 0]))
  for action, arrived in ((0, 0), (3, 0), (2, 0), (1, 1)):
    assert after(CHECKED['levels'], state, action).reward == arrived


def test_trading_wealth_is_what_positions_earn_less_costs():
  """Prices are read off the observations; wealth is followed in NumPy."""
  env, market = CHECKED['trading'], pilots.MARKET
  spread = market['volatility'] / np.sqrt(1 - market['persistence'] ** 2)
  data = rolled(env, datasets.random_actions(env), 1, STEPS)
  x = np.asarray(data['observations'][:, :2], np.float64) * spread
  new = np.asarray(data['next_observations'][:, :2], np.float64) * spread
  weights = np.asarray(data['actions'], np.float64) / 2
  before = np.concatenate([np.zeros((1, 2)), weights[:-1]])
  gains = (weights * np.expm1(market['trend'] + new - x)).sum(1)
  paid = market['cost'] * np.abs(weights - before).sum(1)
  np.testing.assert_allclose(data['rewards'], np.log(1 + gains - paid), atol=1e-6)
  np.testing.assert_allclose(data['next_observations'][:, 2:], data['actions'], rtol=1e-5)


def test_treasure_has_the_front_that_it_says():
  env = CHECKED['treasure']
  step = jax.jit(env.step)
  for column, (value, time) in enumerate(treasure.FRONT):
    state, _ = env.reset(KEY)
    total = jnp.zeros(2)
    for action in [0] * column + [1] * treasure.DEPTHS[column]:
      new = step(state, jnp.int32(action), KEY)
      total += treasure.vector_rewards(new.observation)
      state = new.state
    assert new.terminated
    np.testing.assert_allclose(total, [value, time], rtol=1e-5)
    np.testing.assert_allclose([new.info['treasure'], new.info['time']], [value, time], rtol=1e-5)
    np.testing.assert_allclose(new.reward, value - 1, rtol=1e-5)
  values, times = np.array(treasure.FRONT).T
  # The slope from 19.6 to 22.4 is 0.7 a step, and 20.3 lies on it: it is as good as they are for that slope.
  slopes = np.append(np.linspace(0, 20, 2001), 0.7)[:, None]
  worth = values[None] + slopes * times[None]
  best = worth >= worth.max(axis=1, keepdims=True) - 1e-9
  assert best.any(axis=0).all(), 'every treasure is the best for some weights'
  under_a_ledge = after(env, (jnp.array([5, 6]), NO_STEPS), 2)
  np.testing.assert_allclose(under_a_ledge.observation, [0.5, 6 / 9], rtol=1e-5)


# --- gymnasium ----------------------------------------------------------------------------------------------

TWINS = {  # name -> (gymnasium's name, environment)
    'cartpole': ('CartPole-v1', cartpole.cartpole(max_steps=500)),
    'pendulum': ('Pendulum-v1', pendulum.pendulum(max_steps=200)),
    'mountain_car': ('MountainCar-v0', mountain_car.mountain_car(max_steps=200)),
    'continuous_mountain_car': (
        'MountainCarContinuous-v0', mountain_car.continuous_mountain_car(max_steps=999)
    ),
    'acrobot': ('Acrobot-v1', acrobot.acrobot(max_steps=500)),
}


@pytest.mark.parametrize('name', TWINS)
def test_steps_are_those_of_gymnasium(name):
  """200 steps of each, both from the state that rlx is in."""
  gymnasium = pytest.importorskip('gymnasium')
  theirs_name, env = TWINS[name]
  theirs = gymnasium.make(theirs_name).unwrapped
  theirs.reset(seed=0)
  step, sample = jax.jit(env.step), jax.jit(env.actions.sample)
  state, _ = env.reset(KEY)
  for key in jax.random.split(jax.random.key(1), 200):
    action = sample(key)
    theirs.state = np.asarray(state[0], np.float64)
    torque = np.asarray(action) * (2 if name == 'pendulum' else 1)
    observation, reward, terminated, _, _ = theirs.step(
        int(action) if isinstance(env.actions, Discrete) else torque
    )
    if name == 'cartpole':
      theirs.steps_beyond_terminated = None
    new = step(state, action, key)
    np.testing.assert_allclose(new.observation, observation, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(new.reward, reward, rtol=1e-4, atol=1e-5)
    assert bool(new.terminated) == terminated
    state = env.reset(key)[0] if terminated else new.state
