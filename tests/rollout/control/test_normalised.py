"""Normalisation: moments that networks stand on, and rewards over the deviation of returns."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import config as configs
from rlx.advantages import running
from rlx.envs.control.cartpole import cartpole
from rlx.models import networks
from rlx.models.normalised import moments, moments_of, normalise, normalised, updated
from rlx.rollout.control.normalised import SCALE, scaled_by_returns
from rlx.rollout.control.unroll import unroll
from rlx.run import states
from rlx.run.build import build

CONFIGS = Path(__file__).parents[3] / 'experiments/configs'
ENV = cartpole(max_steps=6)
SHAPE = dict(hidden=(4,), activation='tanh')


def test_moments_do_not_depend_on_how_rows_come():
  rows = 3 + 5 * jax.random.normal(jax.random.key(0), (24, 4))
  known = moments(ENV).init(None)
  for part in (rows[:5], rows[5:6], rows[6:].reshape(3, 6, 4)):
    known = updated(known, part)
  np.testing.assert_allclose(known['mean'], rows.mean(axis=0), rtol=1e-5)
  np.testing.assert_allclose(known['variance'], rows.var(axis=0), rtol=1e-5)
  whole = moments_of({'observations': rows}).init(None)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), whole, known)
  seen = normalise(known, rows)
  np.testing.assert_allclose(seen.mean(axis=0), 0, atol=1e-5)
  np.testing.assert_allclose(seen.std(axis=0), 1, rtol=1e-5)


def test_a_normalised_network_sees_what_its_moments_say_and_clips_it():
  policy, known = networks.categorical(ENV, **SHAPE), moments(ENV)
  model = normalised(policy, known, clip=2.0)
  own = model.init(jax.random.key(1), {})
  of_run = {'mean': jnp.ones(4), 'variance': jnp.full(4, 4.0), 'count': jnp.float32(9)}
  seen = model.view(own, {'moments': of_run})
  logprobs, _ = model.functions.score(seen, jnp.array([3.0, 1, -1, 99])[None], jnp.array([0]))
  expected, _ = policy.score(own, jnp.array([1.0, 0, -1, 2])[None], jnp.array([0]))
  np.testing.assert_allclose(logprobs, expected, rtol=1e-6)
  grads = jax.grad(lambda own: model.functions.score(
      model.view(own, {'moments': of_run}), jnp.ones((1, 4)), jnp.array([1])
  )[0].sum())(own)
  assert jax.tree.structure(grads) == jax.tree.structure(own)


@pytest.mark.slow
def test_rewards_are_divided_by_the_deviation_of_discounted_sums():
  policy = networks.categorical(ENV, **SHAPE)
  plain = unroll(ENV, policy, num_envs=2, num_steps=5)
  scaled = scaled_by_returns(plain, discount=0.5, clip=10.0)
  models = {'policy': policy.init(jax.random.key(0))}
  world, sums, running_sum = scaled.begin(jax.random.key(1)), [], np.zeros(2)
  draw, plain_draw = jax.jit(scaled.draw), jax.jit(plain.draw)
  for key in jax.random.split(jax.random.key(2), 3):
    raw, _ = plain_draw(models, {'agents': world['agents']}, key)
    batch, world = draw(models, world, key)
    for reward, ended in zip(raw['rewards'].T, (raw['terminated'] | raw['truncated']).T, strict=True):
      running_sum = reward + 0.5 * running_sum
      sums.append(running_sum)
      running_sum = np.where(ended, 0, running_sum)
    deviation = np.std(np.concatenate(sums), ddof=1)
    np.testing.assert_allclose(batch['rewards'], raw['rewards'] / deviation, rtol=1e-4)
  mean = running.moments_mean(world[SCALE]['moments'], jnp.zeros(1, int))
  np.testing.assert_allclose(mean, np.mean(sums), rtol=1e-5)


@pytest.fixture(scope='module')
def run():
  config = configs.load(f'{CONFIGS}/control/ppo_cartpole.py:smoke').unlock()
  config.mesh.data, config.log.steps_per_dispatch = 1, 1
  return build(with_normalised(config))


def with_normalised(config):
  for name in ('policy', 'value'):
    config.models[name] = {'name': 'normalised', 'network': config.models[name].to_dict(), 'clip': 10.0}
  config.models.moments = {'name': 'moments'}
  config.slow.moments = 'moments'
  config.rollout = {'name': 'with_moments', 'inner': config.rollout.to_dict()}
  return config


@pytest.mark.slow
def test_a_run_acts_and_learns_by_the_moments_of_the_steps_before(run):
  with jax.set_mesh(run.mesh):
    state, dispatch = states.begin(run, 0, {}, 0), run.stages[0].program.dispatch
    first, metrics = dispatch(state, None)
    assert first.slow['moments']['count'] == 64
    again, metrics = dispatch(jax.tree.map(jnp.copy, first), None)
  assert again.slow['moments']['count'] == 128
  assert (first.slow['moments']['variance'] != again.slow['moments']['variance']).all()
  assert 0 < metrics['kl/old'][0] < 1  # of the first update it is 0: what acted is what is updated


@pytest.mark.slow
def test_moments_of_the_data_are_those_of_the_last_stage_and_stay():
  config = configs.load(f'{CONFIGS}/offline/bc_pointmass.py:smoke').unlock()
  config.mesh.data = 1
  config.models.policy = {'name': 'normalised', 'network': config.models.policy.to_dict(), 'clip': 10.0}
  config.models.moments, config.slow.moments = {'name': 'moments_of'}, 'moments'
  config.data = {'name': 'rescaled', 'span': 1000.0, 'data': config.data.to_dict()}
  made = build(config)
  data = made.stages[0].rollout.data
  with jax.set_mesh(made.mesh):
    state = states.begin(made, 0, {}, 0)
    after, _ = made.stages[0].program.dispatch(jax.tree.map(jnp.copy, state), data)
  mean = after.slow['moments']['mean']
  np.testing.assert_allclose(mean, data['observations'].mean(axis=0), rtol=1e-4, atol=1e-5)
  np.testing.assert_array_equal(mean, state.slow['moments']['mean'])
