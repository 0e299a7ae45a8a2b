"""WSRL (S083): the policy handed on fills the store, and the offline data are left behind."""

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import optax
import pytest

from rlx.algorithms.control.cql import cql
from rlx.algorithms.control.sac import sac
from rlx.models import networks
from rlx.rollout.control.mixed import alternating, simulated, with_dataset
from rlx.rollout.control.offline import offline
from rlx.rollout.control.replay import replay
from rlx.rollout.control.warm import warm_replay
from tests.cases import cases

SMALL = dict(num_envs=2, num_steps=1, capacity=40, batch_size=8)
SCORE = 0.8  # share of episodes that arrive


def steady(env, action):
  """A policy that always does the same."""
  constant = lambda observations: jnp.full((*observations.shape[:-1], env.actions.size), action)
  return networks.Policy(
      init=lambda key: {'shift': jnp.float32(0)},
      sample=lambda params, observations, key: (
          constant(observations) + params['shift'], jnp.zeros(observations.shape[:-1])
      ),
      mode=lambda params, observations: constant(observations) + params['shift'],
      score=None,
  )


@pytest.mark.slow
def test_the_store_is_filled_by_the_models_of_the_stage():
  rollout = warm_replay(toy.ENV, steady(toy.ENV, 0.25), warmup_steps=12, **SMALL)
  world = rollout.begin(jax.random.key(0))
  assert world['store']['size'] == 0
  world = rollout.warm_up({'policy': {'shift': jnp.float32(0.5)}}, world, jax.random.key(1))
  assert world['store']['size'] == 12
  np.testing.assert_array_equal(world['store']['rows']['actions'][:12], np.full((12, 2), 0.75, np.float32))
  batch, after = rollout({'policy': {'shift': jnp.float32(0)}}, world, jax.random.key(2))
  assert after['store']['size'] == 14 and batch['rewards'].shape == (8,)
  np.testing.assert_array_equal(after['store']['rows']['actions'][12:14], np.full((2, 2), 0.25, np.float32))


def rows_of(dataset_action=-1.0, num=5):
  data = toy.driven(num_envs=1, num_steps=num)
  return {**data, 'actions': jnp.full((num, 2), dataset_action)}


def warmed(env, policy):
  return warm_replay(env, policy, warmup_steps=12, **SMALL)


@pytest.mark.parametrize('share, given', cases([(0.0, 0), (0.25, 2), (1.0, 8)], at_once=[(0.25, 2)]))
def test_a_share_of_each_batch_is_of_the_data_set(share, given):
  online = warm_replay(toy.ENV, steady(toy.ENV, 0.25), warmup_steps=12, **SMALL)
  rollout = with_dataset(online, rows_of(), share=share)
  models = {'policy': {'shift': jnp.float32(0)}}
  world = rollout.warm_up(models, rollout.begin(jax.random.key(0)), jax.random.key(1))
  batch, world = rollout(models, {**world, 'data': rollout.data}, jax.random.key(2))
  assert 'data' not in world
  np.testing.assert_array_equal(batch['offline'], np.arange(8) < given)
  np.testing.assert_array_equal(batch['actions'][:, 0], np.where(np.arange(8) < given, -1, 0.25))


def test_batches_alternate_by_chance():
  env, policy = toy.ENV, steady(toy.ENV, 0.25)
  rollout = alternating(
      env, policy, rows_of(), share=0.5, online=warmed,
  )
  models = {'policy': {'shift': jnp.float32(0)}}
  world = rollout.warm_up(models, rollout.begin(jax.random.key(0)), jax.random.key(1))
  draw = jax.jit(lambda key: rollout(models, {**world, 'data': rollout.data}, key)[0]['offline'])
  found = np.array([draw(key) for key in jax.random.split(jax.random.key(2), 40)])
  assert (found.all(axis=1) | (~found).all(axis=1)).all()
  assert 8 < found[:, 0].sum() < 32


def test_what_is_tried_is_tried_in_the_simulator():
  slippery = toy.pointmass(friction=0.0, **toy.PLACE)
  seen = []

  def online(env, policy):
    seen.append(env)
    return warmed(env, policy)

  simulated(steady(toy.ENV, 0.25), rows_of(), simulator=lambda: slippery, online=online, share=0.5)
  assert seen == [slippery]


def test_a_share_beyond_one_is_refused():
  with pytest.raises(ValueError, match='share=1.5'):
    with_dataset(warm_replay(toy.ENV, steady(toy.ENV, 0.0), warmup_steps=12, **SMALL), rows_of(), share=1.5)


@pytest.mark.slow
def test_a_driver_steers_and_some_streams_are_random():
  rows = toy.driven(gain=0.6, noise=0.0, random_share=0.5, num_envs=4, num_steps=10)
  seen = rows['observations']
  steer = jnp.clip(0.6 * (jnp.array(toy.GOAL)[None] - seen[:, :2]) - seen[:, 2:], -1, 1)
  apart = np.abs(rows['actions'] - steer).max(axis=1).reshape(4, 10)
  np.testing.assert_allclose(apart[2:], 0, atol=1e-6)
  assert (apart[:2].max(axis=1) > 0.1).all()
  np.testing.assert_allclose(rows['returns_to_go'][9], rows['rewards'][9], rtol=1e-6)
  earned = rows['rewards'][8] + toy.SAC['discount'] * rows['rewards'][9]
  np.testing.assert_allclose(rows['returns_to_go'][8], earned, rtol=1e-6)


@pytest.fixture(scope='module')
def runs():
  """Shares of episodes that arrive, [seeds, evaluations], of four ways to go on after CQL or to begin."""
  env, nets = toy.SPARSE, toy.nets(toy.SPARSE, temperature=0.01)
  sac_numbers = {**toy.SAC, 'target_entropy': -2.0}
  data = toy.driven(env, gain=1.5, noise=0.6, random_share=0.3)
  begin = toy.fresh(nets._asdict(), jax.random.key(0))
  handed_on, _, _ = toy.stage(
      cql(
          sac(offline(data, batch_size=64), env, *nets, **sac_numbers), nets.policy, nets.critic,
          conservatism=0.5, num_actions=4,
      ),
      begin, policy=nets.policy, env=env, chunks=1, steps=1200,
  )
  numbers = dict(num_envs=1, num_steps=1, capacity=1000, batch_size=256)
  warm = warm_replay(env, nets.policy, warmup_steps=400, **numbers)
  arms = {
      'wsrl': (warm, handed_on),
      'cold': (warm_replay(env, nets.policy, warmup_steps=1, **numbers), handed_on),
      'retained': (with_dataset(warm, data, share=0.5), handed_on),
      'scratch': (replay(env, nets.policy, warmup_steps=400, **numbers), begin),
  }
  return {
      name: toy.stage(
          sac(rollout, env, *nets, **sac_numbers), models, policy=nets.policy, env=env, chunks=10, steps=20,
          minibatches=4, key=2, episodes=32, optimizer=optax.adam(5e-4),
      )[1]
      for name, (rollout, models) in arms.items()
  }


def lowest(arrived):
  """Of each seed, in the first three evaluations after the switch."""
  return arrived[:, 1:4].min(axis=1)


def overall(arrived):
  """Of each seed, over the online run."""
  return arrived[:, 1:].mean(axis=1)


def steps_to_score(arrived):
  """Environment steps until an evaluation of each seed finds `SCORE`; beyond the run where none does."""
  found = np.concatenate([arrived[:, 1:] >= SCORE, np.ones((len(arrived), 1), bool)], axis=1)
  return (found.argmax(axis=1) + 1) * 20 + 400


@pytest.mark.slow
def test_the_warm_up_keeps_what_was_learnt_offline(runs):
  """The policy handed on arrives in 78 % of episodes (median of 5 seeds). In the first 60 steps the share
  falls to 41 % with the warm-up and to 25 % without; no seed falls further with it. Over the run it is 75 %
  (worst seed 51 %), against 51 % (11 %) without and 66 % (1 %) where half of each batch is of the offline
  data.

  So the dip is smaller and does not vanish. Medians are asserted: the same five seeds, compiled to round
  otherwise, have 67 % (worst seed 3 %), against 47 % (10 %) and 19 % (1 %). In the last three evaluations
  the medians, 68 %, 65 % and 77 %, do not tell the three apart.
  """
  ours, cold, retained = (runs[name] for name in ('wsrl', 'cold', 'retained'))
  assert np.median(lowest(ours)) > np.median(lowest(cold)) + 0.05
  assert np.median(overall(ours)) > np.median(overall(cold)) + 0.1
  assert np.median(overall(ours)) > np.median(overall(retained))


@pytest.mark.slow
def test_fewer_online_steps_than_from_scratch(runs):
  """To arrive in 80 % of episodes takes a median of 460 steps of the environment after the switch, of which
  400 are the warm-up (worst seed: not within 600). From scratch, with 400 random steps first, one of 5 seeds
  comes there within 600."""
  ours, theirs = steps_to_score(runs['wsrl']), steps_to_score(runs['scratch'])
  assert np.median(ours) <= np.median(theirs) - 80
  assert (ours <= theirs).sum() >= 4
