"""HECRL: one set of parameters for any number of blocks, subgoals by value, and what both are good for."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control.gciql import gciql
from rlx.algorithms.control.hecrl import hecrl
from rlx.data import behaviours
from rlx.envs.control import push_grid
from rlx.envs.control.environment import Discrete, Environment, timestep, with_time_limit
from rlx.evaluation import subgoals
from rlx.models import diffusion, entities
from rlx.models.diffusion import Denoiser
from rlx.models.networks import Network, softmax_policy
from rlx.rollout.control import hindsight
from tests.control import agents

KEY = jax.random.key(0)
TWO, THREE = (push_grid.push_grid(size=5, num_blocks=n, max_steps=30 * n) for n in (2, 3))
TINY = dict(features=2, wavelengths=(4.0,), hidden=(8, 8), activation='relu')
NOISE = dict(num_levels=10, limit=1.5)
NUMBERS = dict(discount=0.95, target_rate=0.02, expectile=0.9, sharpness=3.0, weight_max=100.0)


# --- entities -----------------------------------------------------------------------------------------------


def swapped(entities, i, j):
  """Observations or states whose entities i and j are exchanged, with their goals where there are any."""
  sets = entities.reshape(*entities.shape[:-1], -1, 3, 2)
  order = [{i: j, j: i}.get(k, k) for k in range(3)]
  return sets[..., order, :].reshape(entities.shape)


def test_blocks_are_interchangeable_and_the_agent_is_not():
  policy, value = entities.entity_policy(TWO, **TINY), entities.entity_value(TWO, **TINY)
  critic, actions = entities.entity_critics(TWO, num=2, **TINY), jnp.arange(4)

  @jax.jit
  def judged(seen):
    of_policy, of_value, of_critic = (x.init(jax.random.key(1)) for x in (policy, value, critic))
    likely = policy.score(of_policy, seen, actions)[0]
    return jnp.stack([likely, value.apply(of_value, seen), *critic.apply(of_critic, seen, actions)])

  seen = np.random.default_rng(0).normal(size=(4, 12)).astype(np.float32)
  before = judged(seen)
  assert before.shape == (4, 4)
  np.testing.assert_allclose(judged(swapped(seen, 1, 2)), before, rtol=1e-4, atol=1e-5)
  assert (np.abs(judged(swapped(seen, 0, 1)) - before) > 1e-5).all()


def test_noise_is_exchanged_with_the_blocks_that_it_is_of():
  network = entities.denoiser(TWO, **TINY, **NOISE)
  guess = jax.jit(lambda *inputs: network.apply(network.init(jax.random.key(1)), *inputs))
  noisy, seen = np.split(np.random.default_rng(0).normal(size=(4, 18)).astype(np.float32), [6], axis=1)
  steps = np.array([0, 1, 5, 9])
  before = np.asarray(guess(noisy, steps, seen))
  after = guess(swapped(noisy, 1, 2), steps, swapped(seen, 1, 2))
  np.testing.assert_allclose(after, swapped(before, 1, 2), rtol=1e-4, atol=1e-5)
  assert not np.allclose(guess(swapped(noisy, 1, 2), steps, seen), before, atol=1e-3)
  assert not np.allclose(guess(noisy, steps[::-1], seen), before, atol=1e-3)


def test_parameters_serve_one_block_more():
  seen, steps = jnp.zeros((5, *THREE.observation_shape)), jnp.zeros(5, jnp.int32)
  for make, inputs, shape in (
      (entities.entity_value, (seen,), (5,)),
      (functools.partial(entities.denoiser, **NOISE), (seen[:, :8], steps, seen), (5, 8)),
  ):
    of_two, of_three = (make(env, **TINY) for env in (TWO, THREE))
    params = jax.eval_shape(of_two.init, KEY)
    assert params == jax.eval_shape(of_three.init, KEY)
    assert jax.eval_shape(of_two.apply, params, *inputs).shape == shape


def test_networks_say_what_they_are_for():
  with pytest.raises(ValueError, match='features=5 of observations'):
    entities.entity_value(TWO, **{**TINY, 'features': 5})
  with pytest.raises(ValueError, match='num=0'):
    entities.entity_critics(TWO, num=0, **TINY)


# --- subgoals -----------------------------------------------------------------------------------------------


def test_of_near_subgoals_the_one_nearest_to_the_goal_is_chosen():
  """In columns: the best of two that are near; at the bound is near; none is, so the nearest; a near one that
  is of less use than one that is not."""
  to_candidates = jnp.array([[-2.0, -3.0, -5.0, -1.0], [-1.0, -2.0, -4.0, -9.0], [-9.0, -9.0, -6.0, -3.5]])
  to_goals = jnp.array([[-7.0, -1.0, -1.0, -6.0], [-8.0, -8.0, -2.0, -1.0], [-1.0, -1.0, -3.0, -2.0]])
  which = subgoals.chosen(to_candidates, to_goals, near=-3.0)
  np.testing.assert_array_equal(which, [0, 0, 1, 0])


def line(max_steps):
  """Places on a line, left (0) or right (1), from 0 to 9; arriving pays 1 on top of 0.1 a step."""

  def reset(key):
    del key
    state = jnp.array([0.0, 9.0])
    return state, state

  def step(state, action, key):
    del key
    state = state.at[0].add(2.0 * action - 1)
    arrived = state[0] == state[1]
    return timestep(state, state, arrived + 0.1, terminated=arrived, success=arrived)

  env = Environment(
      reset=reset, step=step, observation_shape=(2,), actions=Discrete(2), random_return=0.0,
      expert_return=1.0,
  )
  return with_time_limit(env, max_steps)


def knowing(ahead):
  """`(policy, value, subgoals)` on the line: straight on, minus the distance, and always `ahead`."""
  schedule = diffusion.cosine(4)
  offset = lambda seen: seen[..., 1:] - seen[..., :1]

  def left_or_right(params, seen):
    return 1e3 * jnp.concatenate([-offset(seen), offset(seen)], axis=-1)  # no chance is left

  def noise(params, noisy, steps, seen):
    wanted = seen[:, :1] + ahead
    return (noisy - schedule.signal[steps][:, None] * wanted) / schedule.noise[steps][:, None]

  value = Network(init=None, apply=lambda params, seen: -jnp.abs(offset(seen)[..., 0]))
  denoiser = Denoiser(init=None, apply=noise, schedule=schedule, limit=20.0)
  return softmax_policy(None, left_or_right), value, denoiser


NO_PARAMS = dict.fromkeys(('policy', 'value', 'subgoals'))


def pursuing(env, *, keep_steps):
  policy, _, _ = knowing(ahead=2.0)
  act = lambda observation, key: policy.sample(None, observation, key)[0]
  return subgoals.pursuing(env, act, keep_steps=keep_steps, tolerance=0.25)


def test_subgoals_are_proposed_until_the_goal_is_near():
  _, value, denoiser = knowing(ahead=2.0)
  seen = jnp.array([[0.0, 9.0], [5.0, 9.0], [6.0, 9.0], [8.0, 1.0]])
  proposed = jax.jit(
      lambda: subgoals.propose(value, denoiser, NO_PARAMS, seen, KEY, num_samples=3, near=-3.0)
  )()
  # In the last row the one that is near leads away, and is still what the agent can do.
  np.testing.assert_allclose(proposed[:, 0], [2, 7, 9, 10], atol=1e-4)


def test_a_subgoal_is_pursued_until_it_is_reached_or_for_as_long_as_it_is_kept():
  env = line(max_steps=20)
  world = pursuing(env, keep_steps=3)
  step = jax.jit(world.step)
  state, seen = world.reset(KEY)
  np.testing.assert_array_equal(seen, [0, 9])
  moments = []
  for subgoal in (2.1, 8.0, 4.9, 9.0, 9.0):
    new = step(state, jnp.array([subgoal]), KEY)
    state = new.state
    moments.append((float(new.observation[0]), round(float(new.reward), 3), bool(new.terminated)))
  # Reached after 2 actions; left after 3; where it was already, 1 action is taken and 1 back; the end.
  assert moments == [(2, 0.2, False), (5, 0.3, False), (5, 0.2, False), (8, 0.3, False), (9, 1.1, True)]
  assert int(state[0][1]) == 11, 'the clock counts actions'
  with pytest.raises(ValueError, match='keep_steps=0'):
    pursuing(env, keep_steps=0)


def test_the_clock_of_the_actions_ends_a_pursuit():
  env = line(max_steps=2)
  world = pursuing(env, keep_steps=5)
  new = jax.jit(world.step)(world.reset(KEY)[0], jnp.array([9.0]), KEY)
  assert new.truncated and new.observation[0] == 2


@pytest.mark.slow
def test_an_episode_is_played_in_subgoals():
  examination = subgoals.subgoal_episodes(
      line(max_steps=20), *knowing(ahead=2.0), num_samples=2, near=-3.0, keep_steps=2, tolerance=0.25,
      episodes=3, max_subgoals=5, max_steps=8,
  )
  answer = jax.jit(lambda: examination.ask(NO_PARAMS, {}))()
  # 2, 4, 6, and then the goal, 3 away, in two pursuits; alone it would take 9 actions.
  assert answer['success'] == 1 and answer['length'] == 5 and answer['flat_success'] == 0


@pytest.mark.slow
def test_agent_and_diffuser_are_trained_independently():
  """The flat agent's gradients are those of `gciql`; the diffuser's are of its own loss, and of no goal that
  is not the policy's."""
  policy, value = entities.entity_policy(TWO, **TINY), entities.entity_value(TWO, **TINY)
  denoiser, critic = entities.denoiser(TWO, **TINY, **NOISE), entities.entity_critics(TWO, num=2, **TINY)
  nets = {'policy': policy, 'value': value, 'subgoals': denoiser, 'critic': critic}
  params = {name: jax.jit(net.init)(jax.random.key(i)) for i, (name, net) in enumerate(nets.items())}
  judge = params.pop('critic')
  names = ('states', 'next_states', 'waypoints', 'value_goals', 'policy_goals')
  batch = dict(zip(names, jax.random.normal(jax.random.key(2), (5, 8, 6)), strict=True))
  batch |= {'actions': jnp.arange(8) % 4, 'rewards': -jnp.ones(8), 'terminated': jnp.zeros(8, bool)}
  flat = gciql(None, policy, value, critic, **NUMBERS)
  ours = hecrl(flat, denoiser)
  slope_of = lambda algorithm: jax.jit(jax.grad(
      lambda params, batch: algorithm.loss({**params, 'critic': judge, 'target': judge}, batch, KEY),
      has_aux=True,
  ))
  slope = slope_of(ours)
  found, metrics = slope(params, batch)
  wanted, _ = slope_of(flat)(params, batch)
  for part in ('policy', 'value'):
    alike = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5)
    jax.tree.map(alike, found[part], wanted[part])
  others, _ = slope(params, {**batch, 'waypoints': batch['waypoints'] + 1})
  same = lambda a, b: all(jax.tree.leaves(jax.tree.map(np.allclose, a, b)))
  assert same(others['policy'], found['policy']) and same(others['value'], found['value'])
  assert not same(others['subgoals'], found['subgoals'])
  assert metrics['loss/subgoals'] > 0.1


# --- what it is good for ------------------------------------------------------------------------------------

SEEDS, STEPS, EPISODES, DISCOUNT = 6, 3000, 256, 0.95
SHAPE = dict(features=2, wavelengths=(10.0, 5.0, 2.5), activation='relu')


def networks_for(env):
  """What acts: the flat policy, its values, and what proposes subgoals."""
  flat = dict(SHAPE, hidden=(64, 64))
  denoiser = dict(SHAPE, wavelengths=(10.0, 5.0, 2.5, 1.0), hidden=(64, 64, 64), num_levels=10, limit=2.2)
  return {
      'policy': entities.entity_policy(env, **flat), 'value': entities.entity_value(env, **flat),
      'subgoals': entities.denoiser(env, **denoiser),
  }


def trained():
  """Parameters [SEEDS, ...] that have learnt from pushes of two blocks; 60 % of the moves are random."""
  nets, critic = networks_for(TWO), entities.entity_critics(TWO, num=1, hidden=(64, 64), **SHAPE)
  pushes = behaviours.noisy_pushes(
      TWO, size=5, random_share=0.6, num_envs=200, num_steps=200, discount=DISCOUNT, seed=0
  )
  rows = hindsight.hindsight(
      pushes, goal_size=6, value_goals={'current': 0.2, 'geometric': 0.5, 'random': 0.3},
      policy_goals={'geometric': 0.2, 'uniform': 0.8}, discount=DISCOUNT, waypoint_steps=8, tolerance=0.1,
      batch_size=128,
  )
  algorithm = hecrl(gciql(rows, nets['policy'], nets['value'], critic, **NUMBERS), nets['subgoals'])
  agent = agents.Agent(algorithm, nets['policy'], {**nets, 'critic': critic}, {'target': 'critic'})
  keys = jax.random.split(jax.random.key(1), SEEDS)
  state, _ = agents.trained(agent, optax.adam(2e-3), keys, STEPS)
  return state.params


def outcomes(env, params, max_steps):
  """[SEEDS, 4] of flat policy and hierarchy: shares of episodes that arrive, and of blocks in place."""
  examination = subgoals.subgoal_episodes(
      env, *networks_for(env).values(), num_samples=16, near=-(1 - DISCOUNT**8) / (1 - DISCOUNT),
      keep_steps=3, tolerance=0.5, episodes=EPISODES, max_subgoals=max_steps // 2, max_steps=max_steps,
  )
  answer = jax.jit(jax.vmap(lambda models: examination.ask(models, {})))(params)
  names = ('flat_success', 'success', 'flat_placed', 'placed')
  return np.stack([np.asarray(answer[name]) for name in names], axis=1)


@pytest.mark.slow
def test_a_hierarchy_places_more_blocks_than_its_own_flat_policy():
  """Of two blocks, in 60 moves: 0.57 of them in place against 0.51 (means of 6 seeds, 256 episodes each),
  and of three, the third never trained on, 0.29 against 0.24. With six other seeds 0.53 against 0.49
  and 0.28 against 0.25. (All figures are of networks that began with other weights than they do here.)

  What does not show: that it *arrives* more often, all blocks and the agent in place. It does in 0.36 of the
  episodes, the flat policy in 0.34 (means; 0.33 and 0.32 with the other seeds), with three blocks in 0.03 and
  0.02. The script that made the data, without its random moves, arrives in 0.87 and 0.55. 64 episodes a seed
  once said 0.39 against 0.27: that was noise. From data with 30 % random moves in place of 60 % both arrive
  more often, and neither is ahead."""
  params = trained()
  two, three = (outcomes(env, params, n) for env, n in ((TWO, 60), (THREE, 90)))
  _, _, flat_placed, placed = two.mean(axis=0)
  assert placed > flat_placed + 0.02, two
  _, _, flat_placed, placed = three.mean(axis=0)
  assert placed > flat_placed + 0.015, three
