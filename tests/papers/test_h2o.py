"""H2O (S193): a simulator that knows nothing of a patch of mud, and data of the world that has it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import pytest

from rlx.algorithms.control import h2o as paper
from rlx.algorithms.control.sac import sac
from rlx.data import transitions as datasets
from rlx.envs.control.pointmass import pointmass
from rlx.models.dynamics import dynamics_gap
from rlx.models.networks import Network
from rlx.rollout.control.mixed import with_dataset
from rlx.rollout.control.offline import offline
from rlx.rollout.control.replay import replay

PLACE = dict(max_steps=toy.MAX_STEPS, start=(-0.5, -0.3), start_radius=0.1, goal=(0.5, -0.3), obstacles=())
SIMULATOR = pointmass(friction=0.5, **PLACE)
MUD = pointmass(friction=9.0, **PLACE)
NUMBERS = dict(
    push_coef=0.05, most_gap=5.0, least_weight=1e-3, most_weight=1.0, num_next=4, next_noise=0.01,
    input_noise=0.01,
)


def in_mud(observations):
  """A strip across the straight way; above it the way is free."""
  return (jnp.abs(observations[..., 0]) < 0.2) & (observations[..., 1] < 0.1)


def step(state, action, key):
  dry, wet = SIMULATOR.step(state, action, key), MUD.step(state, action, key)
  there = in_mud(state[0])  # behind it is the clock
  return jax.tree.map(lambda a, b: jnp.where(there, a, b), wet, dry)


WORLD = dataclasses.replace(SIMULATOR, step=step)


def records(num_envs=40):
  """A driver who goes round the mud half of the time, with noise."""

  def act(observations, key):
    x, y = observations[:, 0], observations[:, 1]
    noise_key, way_key = jax.random.split(key)
    round_it = (x < 0.15) & (jnp.arange(num_envs) % 2 == 0)
    goal = jnp.stack([jnp.where(round_it & (y < 0.1), -0.3, 0.5), jnp.where(round_it, 0.3, -0.3)], axis=1)
    steer = 2.0 * (goal - observations[:, :2]) - observations[:, 2:]
    return jnp.clip(steer + 0.4 * jax.random.normal(noise_key, steer.shape), -1, 1)

  return datasets.roll_out(WORLD, act, jax.random.key(0), num_envs=num_envs, num_steps=toy.MAX_STEPS)


def constant_gap(pair, added):
  full = lambda s, x: jnp.full(s.shape[:1], x)
  return Network(init=lambda key: {}, apply=lambda params, s, a, s2: (full(s, pair), full(s, added)))


def batch_of(real):
  rows = jax.tree.map(lambda x: x[: len(real)], records(num_envs=1))
  return {**rows, 'offline': jnp.array(real)}


def agent(gap, rollout, nets, **changes):
  return paper.h2o(rollout, WORLD, *nets, gap, **{**toy.SAC, **NUMBERS, **changes})


@pytest.mark.slow
def test_the_gap_is_what_the_next_state_tells():
  gap = constant_gap(pair=3.0, added=-1.5)
  batch = batch_of([False] * 4)
  np.testing.assert_allclose(paper.log_ratio(gap, {}, batch), np.full(4, -1.5))
  np.testing.assert_allclose(
      paper.gap_of(gap, {}, batch, jax.random.key(0), num=3, noise=0.1), np.full(4, 1.5)
  )


@pytest.fixture(scope='module')
def parts():
  nets = toy.nets(WORLD)
  models = jax.tree.map(lambda x: x[0], toy.fresh(nets._asdict(), jax.random.key(0), seeds=1))
  return nets, {**models, 'gap': {}}


def losses(parts, gap, batch, **changes):
  nets, models = parts
  algorithm = agent(gap, offline(batch, batch_size=4), nets, **changes)
  return algorithm.loss(models, batch, jax.random.key(1))[1]


@pytest.mark.slow
def test_where_the_simulator_is_right_every_error_counts(parts):
  metrics = losses(parts, constant_gap(0.0, 0.0), batch_of([True, True, False, False]))
  np.testing.assert_allclose(metrics['gap/weight'], 1)


@pytest.mark.slow
def test_what_cannot_happen_in_reality_hardly_counts(parts):
  metrics = losses(parts, constant_gap(0.0, -3.0), batch_of([True, True, False, False]))
  np.testing.assert_allclose(metrics['gap/weight'], np.exp(-3.0), rtol=1e-5)
  np.testing.assert_allclose(metrics['gap/mean'], 3.0, rtol=1e-5)
  metrics = losses(parts, constant_gap(0.0, -30.0), batch_of([True, True, False, False]))
  np.testing.assert_allclose(metrics['gap/weight'], NUMBERS['least_weight'], rtol=1e-5)
  np.testing.assert_allclose(metrics['gap/mean'], NUMBERS['most_gap'], rtol=1e-5)


@pytest.mark.slow
def test_values_are_pushed_where_the_gap_is(parts):
  """log Σ ω exp Q - mean_real Q of two simulated rows, of which one has all of the gap."""
  nets, models = parts
  batch = batch_of([True, True, False, False])
  marked = batch['observations'][2, 0]
  gap = Network(
      init=lambda key: {},
      apply=lambda params, s, a, s2: (s[:, 0], jnp.where(s[:, 0] == marked, -2.0, 1.0)),
  )
  values = nets.critic.apply(models['critic'], batch['observations'], batch['actions'])
  wanted = (values[:, 2] - values[:, :2].mean(axis=1)).sum()
  np.testing.assert_allclose(losses(parts, gap, batch)['loss/push'], wanted, atol=1e-4)


@pytest.mark.slow
def test_the_records_mend_the_simulator():
  """After 1100 updates the median return in the world is -24.1 (worst seed -24.8), and that of SAC in the
  simulator -25.6 (-27.7): each seed is better than its counterpart. The gap in the mud is above that before
  it by 1.5 nats (median; worst seed 0.4). CQL on the records alone earns -22.7: their driver knows the way
  round, so the claim that H2O beats what is only offline does not show here, and is not asserted."""
  nets, rows = toy.nets(WORLD), records()
  gap = dynamics_gap(WORLD, hidden=(32, 32), activation='relu')
  online = replay(
      SIMULATOR, nets.policy, num_envs=4, num_steps=1, capacity=4800, warmup_steps=400, batch_size=128
  )
  begin = toy.fresh({**nets._asdict(), 'gap': gap}, jax.random.key(0))
  without = {name: x for name, x in begin.items() if name != 'gap'}
  arms = {
      'h2o': (agent(gap, with_dataset(online, rows, share=0.5), nets), begin),
      'simulator': (sac(online, WORLD, *nets, **toy.SAC), without),
  }
  found = {
      name: toy.stage(algorithm, models, policy=nets.policy, env=WORLD, chunks=5, steps=220)
      for name, (algorithm, models) in arms.items()
  }
  returns = {name: x[1] for name, x in found.items()}
  x = jnp.concatenate([jnp.linspace(-0.15, 0.15, 8), jnp.linspace(-0.5, -0.25, 8)])  # in the mud, before it
  fast = jnp.stack([x, jnp.full(16, -0.3), jnp.full(16, 0.4), jnp.zeros(16)], axis=1)
  tried = jnp.tile(jnp.array([[1.0, 0.0]]), (16, 1))
  step_of = jax.vmap(lambda s: SIMULATOR.step((s, jnp.int32(0)), tried[0], jax.random.key(0)).observation)
  places = {'observations': fast, 'actions': tried, 'next_observations': step_of(fast)}
  gaps = jax.vmap(
      lambda p: paper.gap_of(gap, p, places, jax.random.key(0), num=8, noise=0.01)
  )(found['h2o'][0]['gap'])
  wet, dry = np.asarray(gaps[:, :8].mean(axis=1)), np.asarray(gaps[:, 8:].mean(axis=1))
  assert np.median(wet - dry) > 0.7 and (wet > dry).all()
  better = returns['h2o'][:, -1] - returns['simulator'][:, -1]
  assert np.median(better) > 0.3
  assert np.median(returns['h2o'][:, 0]) < np.median(returns['h2o'][:, -1]) - 10
