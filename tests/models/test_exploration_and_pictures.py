"""Annealed exploration by hand, convolutions as layers, frames that are stacked."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import config as configs
from rlx import tracking
from rlx.controllers import schedules
from rlx.envs.control.cartpole import cartpole
from rlx.envs.control.conformance import check_environment
from rlx.envs.control.environment import Discrete, Environment
from rlx.envs.control.wrappers import stacked
from rlx.models import networks
from rlx.models.convolutional import convolutional
from rlx.models.exploration import annealed, counted, exploration
from rlx.run import states
from rlx.run.build import build

CONFIGS = Path(__file__).parents[2] / 'experiments/configs/control'
ENV = cartpole(max_steps=6)


def greedy(env, epsilon=0.1):
  network = lambda env: networks.action_values(env, hidden=(4,), activation='tanh', layer_norm=False)
  return networks.epsilon_greedy(env, network=network, epsilon=epsilon)


@pytest.mark.slow
def test_an_annealed_policy_is_a_mixture_that_follows_the_steps():
  linear = lambda step: schedules.linear(step, first=1.0, last=0.0, num_steps=4)
  of_run = exploration(schedule=linear)
  model = annealed(ENV, greedy(ENV, epsilon=0.2), of_run)
  own, steps = model.init(jax.random.key(0), {}), of_run.init(None)
  observations = jax.random.normal(jax.random.key(1), (2000, 4))
  for share in (1.0, 0.75):
    params = model.view(own, {'exploration': steps})
    actions, logprobs = model.functions.sample(params, observations, jax.random.key(2))
    best = model.functions.mode(params, observations)
    chance = share / 2 + (1 - share) * 0.9  # of the best of two: by the schedule, and by its own ε
    assert abs((actions == best).mean() - chance) < 0.04
    np.testing.assert_allclose(logprobs, np.log(np.where(actions == best, chance, 1 - chance)), rtol=1e-5)
    again, entropy = model.functions.score(params, observations, actions)
    np.testing.assert_allclose(again, logprobs, rtol=1e-5)
    np.testing.assert_allclose(
        entropy, -chance * np.log(chance) - (1 - chance) * np.log(max(1 - chance, 1e-9)), rtol=1e-4
    )
    steps = counted(steps)


def test_an_exponential_schedule_takes_equal_factors():
  at = lambda step: float(schedules.exponential(step, first=1.0, last=0.01, num_steps=4))
  expected = [1, 0.1**0.5, 0.1, 0.01, 0.01]
  np.testing.assert_allclose([at(step) for step in (0, 1, 2, 4, 9)], expected, rtol=1e-5)


def test_a_periodic_target_can_take_a_share():
  track = tracking.periodic({'target': 'policy'}, period=2, rate=0.25)
  slow, params = {'target': jnp.zeros(1)}, {'policy': jnp.ones(1)}
  seen = []
  for update in range(4):
    slow = track(slow, params, jnp.int32(update))
    seen.append(float(slow['target'][0]))
  assert seen == [0, 0.25, 0.25, 0.4375]


@pytest.mark.slow
def test_a_run_counts_its_steps_and_its_target_follows():
  config = configs.load(f'{CONFIGS}/annealed_dqn_cartpole.py:smoke').unlock()
  config.mesh.data = 1
  run = build(config)
  with jax.set_mesh(run.mesh):
    state = states.begin(run, 0, {}, 0)
    before = jax.tree.map(np.asarray, (state.slow['target'], state.params['policy']))
    state, _ = run.stages[0].program.dispatch(state, None)
  assert int(state.slow['exploration']['steps']) == config.log.steps_per_dispatch
  moved = lambda a, b: float(np.abs(np.concatenate([x.ravel() for x in jax.tree.leaves(
      jax.tree.map(np.subtract, a, b))])).max())
  assert 0 < moved(state.slow['target'], before[0]) < 0.05 * moved(state.params['policy'], before[1])


def pictures(shape):
  return Environment(
      reset=None, step=None, observation_shape=shape, actions=Discrete(3), random_return=0.0,
      expert_return=1.0,
  )


SIZES = dict(channels=(2, 3), kernels=(3, 2), strides=(2, 1), activation='relu', scale=0.5)
HEAD = lambda env: networks.state_value(env, hidden=(5,), activation='tanh')


def test_convolutions_are_those_of_a_loop():
  """One layer against a naive loop, with a head that adds up what it sees."""
  env = pictures((5, 4, 2))
  adds = lambda env: networks.Network(init=lambda key: {}, apply=lambda params, x: x)
  net = convolutional(
      env, network=adds, channels=(3,), kernels=(2,), strides=(2,), activation='identity', scale=0.5
  )
  params = net.init(jax.random.key(0))
  kernel = np.asarray(params['convolutions'][0]['kernel'])
  x = np.asarray(jax.random.normal(jax.random.key(1), (5, 4, 2)))
  expected = [
      np.einsum('hwc,hwco->o', 0.5 * x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2], kernel)
      for i in range(2) for j in range(2)
  ]
  np.testing.assert_allclose(net.apply(params, x[None])[0], np.concatenate(expected), rtol=1e-4, atol=1e-5)


def test_channels_can_come_first_and_batches_can_have_any_axes():
  last, first = (
      convolutional(pictures(shape), network=HEAD, channels_first=shape[0] == 2, **SIZES)
      for shape in ((9, 8, 2), (2, 9, 8))
  )
  params = last.init(jax.random.key(0))
  x = jax.random.normal(jax.random.key(1), (4, 3, 9, 8, 2))
  values = last.apply(params, x)
  assert values.shape == (4, 3)
  np.testing.assert_allclose(first.apply(params, jnp.moveaxis(x, -1, -3)), values, rtol=1e-5)
  policy = convolutional(pictures((9, 8, 2)), network=greedy, **SIZES)
  assert policy.mode(policy.init(jax.random.key(2)), x).shape == (4, 3)


@pytest.mark.parametrize(('shape', 'changes', 'message'), [
    ((9,), {}, 'pictures'), ((9, 8, 2), {'strides': (1,)}, 'as many'), ((3, 3, 2), {}, 'nothing is left'),
])
def test_sizes_that_cannot_be_are_refused(shape, changes, message):
  with pytest.raises(ValueError, match=message):
    convolutional(pictures(shape), network=HEAD, **{**SIZES, **changes})


def test_frames_are_stacked_oldest_first():
  env = stacked(cartpole(max_steps=40), frames=3)
  check_environment(env, num_steps=40)
  state, observation = env.reset(jax.random.key(0))
  first, inner = observation[:4], state[0]
  np.testing.assert_array_equal(observation, jnp.tile(first, 3))
  new = env.step(state, jnp.int32(1), jax.random.key(1))
  alone = cartpole(max_steps=40).step(inner, jnp.int32(1), jax.random.key(1))
  np.testing.assert_array_equal(new.observation, jnp.concatenate([first, first, alone.observation]))
