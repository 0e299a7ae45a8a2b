"""SAW: a flat policy reaches the far end of a corridor; its parent's, learnt from the same data, does not."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control.gciql import gciql
from rlx.algorithms.control.saw import saw
from rlx.envs.control import maze
from rlx.evaluation import episodes as evaluation
from rlx.models import networks
from rlx.models.networks import Network
from rlx.rollout.control import hindsight
from rlx.rollout.control.walks import tending
from tests.control import agents

LENGTH, SEEDS, STEPS, EPISODE = 30, 5, 2000, 100
LAYOUT = maze.corridor(LENGTH)
ANYWHERE = maze.grid_maze(layout=LAYOUT, starts='SG.', goals='SG.', max_steps=EPISODE)
THROUGH = maze.grid_maze(layout=LAYOUT, starts='S', goals='G', max_steps=2 * LENGTH)
SHAPE = dict(hidden=(64, 64), activation='relu')
POLICY, VALUE = networks.categorical(ANYWHERE, **SHAPE), networks.state_value(ANYWHERE, **SHAPE)
CRITIC = networks.discrete_critics(ANYWHERE, num=2, **SHAPE)
NUMBERS = dict(discount=0.95, target_rate=0.02, sharpness=3.0, weight_max=100.0)


def rows_of(states, next_states, waypoints, value_goals, policy_goals, rewards, terminated):
  """A batch of `hindsight` whose states are places [B] on a line."""
  place = lambda x: jnp.array(x, jnp.float32)[:, None]
  return {
      'states': place(states), 'next_states': place(next_states), 'waypoints': place(waypoints),
      'waypoint_goals': place(waypoints), 'value_goals': place(value_goals),
      'policy_goals': place(policy_goals), 'actions': jnp.zeros(len(states), jnp.int32),
      'rewards': jnp.array(rewards), 'terminated': jnp.array(terminated),
  }


# V(s, g) = -c |g - s|, and a critic that thinks the same of the state that it is in.
DISTANCE = Network(init=None, apply=lambda c, seen: -c * jnp.abs(seen[..., 1] - seen[..., 0]))
SCORES = Network(init=None, apply=lambda c, seen, actions: DISTANCE.apply(c, seen)[None] + 0.5)
BATCH = rows_of([0, 4], [1, 3], [2, 3], [3, 4], [5, 0], [-1.0, 0.0], [False, True])


def likeliness():
  """A policy whose log-probability is its parameter times the goal."""
  score = lambda params, seen, actions: (params * seen[..., 1], jnp.zeros(seen.shape[:-1]))
  sample = lambda params, seen, key: (jnp.zeros(seen.shape[:-1], jnp.int32), params * seen[..., 1])
  return networks.Policy(init=None, sample=sample, mode=None, score=score)


def test_the_losses_of_saw_by_hand():
  policy = likeliness()
  algorithm = saw(
      None, policy, policy, DISTANCE, discount=0.5, target_rate=0.1, expectile=0.75, sharpness=1.0,
      waypoint_sharpness=0.5, weight_max=3.0,
  )
  trained = {'policy': jnp.float32(-1), 'subpolicy': jnp.float32(-2), 'value': jnp.float32(1)}
  loss = lambda trained: algorithm.loss({**trained, 'target': jnp.float32(2)}, BATCH, jax.random.key(0))
  (_, found), slopes = jax.value_and_grad(loss, has_aux=True)(trained)

  # Target -1 + 1/2 (-4) = -3 is above V̄ = -6 and 0 from V = -3; in the goal everything is 0.
  np.testing.assert_allclose(found['loss/value'], 0.0, atol=1e-6)
  # To their waypoints both rows gain 1: e. Log-probabilities are -2 w.
  np.testing.assert_allclose(found['loss/subpolicy'], np.mean([np.e * 4, np.e * 6]), rtol=1e-5)
  # To their goals 1 each as well, at -1 g.
  np.testing.assert_allclose(found['loss/policy'], np.mean([np.e * 5, np.e * 0]), rtol=1e-5)
  # Waypoints gain 2 and 1 on the way, at β = 1/2; log-ratios -2 w + g.
  trust = np.exp([1.0, 0.5])
  np.testing.assert_allclose(found['loss/bootstrap'], np.mean(trust * [-4 + 5, -6 + 0]), rtol=1e-5)
  np.testing.assert_allclose(slopes['subpolicy'], -np.mean([np.e * 2, np.e * 3]), rtol=1e-5)
  np.testing.assert_allclose(slopes['policy'], -np.mean([np.e * 5 + trust[0] * 5, 0]), rtol=1e-5)


def test_only_the_value_loss_moves_the_value_and_low_targets_count_less():
  policy = likeliness()
  algorithm = saw(
      None, policy, policy, DISTANCE, discount=0.5, target_rate=0.1, expectile=0.75, sharpness=1.0,
      waypoint_sharpness=0.5, weight_max=3.0,
  )
  batch = {**BATCH, 'rewards': jnp.array([-9.0, 0.0])}  # the target is -11, below V̄

  def loss(c):
    models = {'policy': jnp.float32(-1), 'subpolicy': jnp.float32(-2), 'value': c, 'target': jnp.float32(2)}
    return algorithm.loss(models, batch, jax.random.key(0))

  (_, found), slope = jax.value_and_grad(loss, has_aux=True)(jnp.float32(1))
  np.testing.assert_allclose(found['loss/value'], 0.25 * 8.0**2 / 2, rtol=1e-5)
  np.testing.assert_allclose(slope, 0.25 * 2 * -8 * 3 / 2, rtol=1e-5)


@pytest.mark.slow
def test_a_policy_that_is_its_teacher_has_nothing_to_learn_from_it():
  algorithm = saw(None, POLICY, POLICY, VALUE, expectile=0.7, waypoint_sharpness=3.0, **NUMBERS)
  state, goal = jnp.zeros((4, 2)), jnp.ones((4, 2))
  batch = {
      'states': state, 'next_states': state, 'waypoints': state, 'value_goals': goal, 'policy_goals': goal,
      'waypoint_goals': goal, 'actions': jnp.zeros(4, jnp.int32), 'rewards': jnp.zeros(4),
      'terminated': jnp.zeros(4, bool),
  }
  params, values = POLICY.init(jax.random.key(0)), VALUE.init(jax.random.key(1))
  models = {'policy': params, 'subpolicy': params, 'value': values, 'target': values}
  _, metrics = algorithm.loss(models, batch, jax.random.key(2))
  np.testing.assert_allclose(metrics['loss/bootstrap'], 0, atol=1e-6)
  assert set(metrics) >= {'loss/subpolicy', 'loss/policy', 'loss/value'}


def test_the_losses_of_gciql_by_hand():
  policy = likeliness()
  algorithm = gciql(
      None, policy, DISTANCE, SCORES, discount=0.5, target_rate=0.1, expectile=0.75, sharpness=1.0,
      weight_max=3.0,
  )
  numbers = {'policy': -1.0, 'value': 1.0, 'critic': 1.0, 'target': 2.0}
  models = {name: jnp.float32(x) for name, x in numbers.items()}
  _, found = algorithm.loss(models, BATCH, None)
  # Q̄ - V for the value goals: -6 + 1/2 + 3, and 1/2 in the goal.
  np.testing.assert_allclose(found['loss/value'], np.mean([0.25 * 2.5**2, 0.75 * 0.5**2]), rtol=1e-5)
  # Q = -3 + 1/2 towards -1 - 1/2 2; in the goal 1/2 towards 0.
  np.testing.assert_allclose(found['loss/critic'], np.mean([0.5**2, 0.5**2]), rtol=1e-5)
  # For the policy's goals: -10 + 1/2 + 5, and -8 + 1/2 + 4; the latter's goal is 0, where log π is 0.
  np.testing.assert_allclose(found['loss/policy'], np.exp(-4.5) * 5 / 2, rtol=1e-5)


def rows():
  """Walks that tend to a goal: 15 % of the moves are the best one, the others any. A walk of 100 moves gets
  15 cells nearer, so hardly one goes through the corridor."""
  walks = tending(
      ANYWHERE, layout=LAYOUT, tendency=0.15, num_envs=200, num_steps=EPISODE, discount=1.0, seed=0
  )
  return hindsight.hindsight(
      walks, goal_size=2, value_goals={'current': 0.2, 'geometric': 0.5, 'random': 0.3},
      policy_goals={'uniform': 1.0}, discount=0.95, waypoint_steps=8, tolerance=0.1, batch_size=128,
  )


def arrives(params):
  """How many of 50 get from one end to the other in twice the moves that it takes; and of those that are not
  random, 0 or 1."""
  sampled = lambda params, seen, key: POLICY.sample(params, seen, key)[0]
  likeliest = lambda params, seen, key: POLICY.mode(params, seen)
  play = lambda act: evaluation.play(THROUGH, act, params, jax.random.key(2), 50, 2 * LENGTH)
  return jnp.stack([play(act)['success'].mean() for act in (sampled, likeliest)])


@pytest.mark.slow
def test_the_flat_policy_reaches_the_far_end_with_every_seed_and_gciql_loses_some():
  """From one end of 30 cells to the other within 60 moves, each with its authors' τ: SAW arrives in all
  episodes of all 5 seeds, sampled and with the likeliest moves. Which seeds GCIQL loses, the same code does
  not settle: sampled 0, 0.66, 1, 0.7, 0.48 in one environment and 0.82, 1, 0.84, 0.54, 0.92 in another (jax
  0.10.2); with the likeliest moves it lost four of the five, and two. In the first one its values fell
  steadily with the distance, as SAW's do: what it lacked was the difference that one move makes, and the
  share of the right move fell from 0.98 near the goal to 0.23."""
  rollout, keys, adam = rows(), jax.random.split(jax.random.key(1), SEEDS), optax.adam(1e-3)
  flat = saw(rollout, POLICY, POLICY, VALUE, expectile=0.7, waypoint_sharpness=3.0, **NUMBERS)
  parent = gciql(rollout, POLICY, VALUE, CRITIC, expectile=0.9, **NUMBERS)
  networks_of_saw = {'policy': POLICY, 'subpolicy': POLICY, 'value': VALUE}  # and no generator of subgoals
  ours = agents.Agent(flat, POLICY, networks_of_saw, {'target': 'value'})
  theirs = agents.Agent(
      parent, POLICY, {'policy': POLICY, 'value': VALUE, 'critic': CRITIC}, {'target': 'critic'}
  )
  states = [agents.trained(agent, adam, keys, STEPS)[0] for agent in (ours, theirs)]
  ours, theirs = (np.asarray(jax.jit(jax.vmap(arrives))(state.params['policy'])) for state in states)
  assert ours.min() > 0.9, ours
  assert theirs[:, 0].min() < 0.8 and theirs[:, 1].min() < 0.5, theirs
