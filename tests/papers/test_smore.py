"""SMORe: scores of actions for goals from random walks, in a maze that is seen as a table."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.control.bc import bc
from rlx.algorithms.control.smore import smore
from rlx.data import transitions as datasets
from rlx.envs.control import maze
from rlx.evaluation import episodes as evaluation
from rlx.models import networks
from rlx.models.networks import Network
from rlx.rollout.control import hindsight
from tests.control import agents

# A bent corridor: one move is the best one everywhere.
MARKS = dict(layout='u', starts='SMG.', goals='SMG.')
ENV = maze.tabular_maze(**MARKS, max_steps=20)
NUM_CELLS = ENV.observation_shape[0] // 2
SHAPE = dict(hidden=(64,), activation='relu')
POLICY, VALUE = networks.categorical(ENV, **SHAPE), networks.state_value(ENV, **SHAPE)
CRITIC = networks.discrete_critics(ENV, num=2, **SHAPE)
NUMBERS = dict(discount=0.9, target_rate=0.02, expectile=0.8, mixture=0.5, sharpness=3.0, weight_max=100.0)
SEEDS, STEPS = 5, 1500


def fixed(output):
  """A network that is its parameter, in the shape that a critic or a value has."""
  return Network(init=lambda key: jnp.float32(0), apply=output)


@pytest.mark.slow
def test_the_losses_by_hand():
  """One row, S = 2 and M = 3 for every goal: γ M - S = 0.7."""
  value = fixed(lambda params, seen: jnp.full(seen.shape[:-1], params))
  critic = fixed(lambda params, seen, actions: jnp.full((1, *actions.shape), params))
  numbers = {**NUMBERS, 'mixture': 0.25}
  algorithm = smore(None, POLICY, value, critic, **numbers)
  row = jnp.zeros((1, NUM_CELLS))
  batch = {
      'states': row, 'next_states': row, 'value_goals': row, 'policy_goals': row, 'next_goals': row,
      'actions': jnp.zeros(1, jnp.int32),
  }
  policy = POLICY.init(jax.random.key(0))

  def loss(trained):
    models = {'policy': policy, 'target': jnp.float32(2), **trained}
    return algorithm.loss(models, batch, None)

  trained = {'value': jnp.float32(3), 'critic': jnp.float32(2)}
  (_, metrics), slopes = jax.value_and_grad(loss, has_aux=True)(trained)
  np.testing.assert_allclose(metrics['loss/critic'], 0.25 * (0.1 * 2 - 2) + 0.7**2 / 4, rtol=1e-5)
  np.testing.assert_allclose(metrics['loss/value'], 0.2 * 1**2, rtol=1e-5)
  np.testing.assert_allclose(metrics['policy/weight'], np.exp(-3), rtol=1e-5)
  np.testing.assert_allclose(slopes['critic'], 0.25 * (0.1 - 1) - 0.7 / 2, rtol=1e-5)
  np.testing.assert_allclose(slopes['value'], 0.2 * 2 * 1, rtol=1e-5, err_msg='M has its own loss alone')


def rows():
  play = lambda key: datasets.roll_out(ENV, datasets.random_actions(ENV), key, num_envs=100, num_steps=60)
  return hindsight.hindsight(
      jax.jit(play)(jax.random.key(5)), goal_size=NUM_CELLS, value_goals={'geometric': 0.5, 'random': 0.5},
      policy_goals={'geometric': 1.0}, discount=0.9, waypoint_steps=1, tolerance=0.5, batch_size=128,
  )


def hindsight_bc(rollout):
  """Behaviour cloning of what was done on the way to a goal."""

  def draw(models, world, key):
    batch, world = rollout.draw(models, world, key)
    seen = hindsight.joined(batch['states'], batch['policy_goals'])
    return {'observations': seen, 'actions': batch['actions']}, world

  algorithm = bc(dataclasses.replace(rollout, draw=draw), POLICY)
  return agents.Agent(algorithm, POLICY, {'policy': POLICY}, {})


def every_pair():
  """[pairs, 2 cells] what is seen in each cell with each other one as the goal, and [pairs] the best move."""
  env = maze.grid_maze(**MARKS, max_steps=20)
  seen = jnp.unique(jax.vmap(env.reset)(jax.random.split(jax.random.key(0), 2000))[1], axis=0)
  seen = seen[jnp.abs(maze.achieved(seen) - maze.goal_of(seen)).sum(axis=1) > 0]
  return maze.one_hot_cells('u', seen), maze.shortest_moves('u')(seen, None)


def success(params):
  act = lambda params, seen, key: POLICY.sample(params, seen, key)[0]
  return evaluation.play(ENV, act, params, jax.random.key(1), 100, 15)['success'].mean()


@pytest.mark.slow
def test_scores_rank_the_best_action_first_and_the_policy_beats_hindsight_cloning():
  """The best of four moves has the highest score in 0.89 of the 110 pairs of a cell and a goal (median of 5
  seeds; worst 0.86); a guess has it in 0.25. From random starts to random goals within 15 moves, sampled:
  median 0.82 against 0.69 of cloning in hindsight; the worst seed 0.78 against its best 0.71."""
  rollout, keys = rows(), jax.random.split(jax.random.key(0), SEEDS)
  trained = {'policy': POLICY, 'value': VALUE, 'critic': CRITIC}
  algorithm = smore(rollout, POLICY, VALUE, CRITIC, **NUMBERS)
  agent = agents.Agent(algorithm, POLICY, trained, {'target': 'critic'})
  state, _ = agents.trained(agent, optax.adam(3e-3), keys, STEPS)
  cloned, _ = agents.trained(hindsight_bc(rollout), optax.adam(3e-3), keys, STEPS)

  seen, best = every_pair()
  of = lambda params, action: CRITIC.apply(params, seen, jnp.full(seen.shape[0], action)).min(axis=0)
  all_scores = lambda params: jnp.stack([of(params, action) for action in range(4)])
  scores = jax.jit(jax.vmap(all_scores))(state.params['critic'])
  ranked = np.mean(np.asarray(scores.argmax(axis=1)) == np.asarray(best)[None], axis=1)
  ours, theirs = (np.asarray(jax.jit(jax.vmap(success))(s.params['policy'])) for s in (state, cloned))
  assert len(best) == 110 and np.median(ranked) > 0.85 and ranked.min() > 0.75, ranked
  assert np.median(ours) > np.median(theirs) + 0.08, (ours, theirs)
  assert ours.min() > theirs.max(), (ours, theirs)
