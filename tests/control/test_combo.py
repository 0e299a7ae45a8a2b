"""COMBO: which states are pushed down and which actions held up, and what that is worth on mixed data."""

import functools

import agents
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import step
from rlx.algorithms.control.combo import combo
from rlx.algorithms.control.mopo import mopo
from rlx.algorithms.control.sac import sac
from rlx.data.behaviours import steered
from rlx.envs.control.environment import Continuous, Environment
from rlx.envs.control.pointmass import pointmass
from rlx.evaluation import episodes as evaluation
from rlx.models import dynamics, networks
from rlx.models.networks import Network, Policy
from rlx.rollout.control.dreams import penalised_dreams, real_and_dreamt
from rlx.rollout.control.offline import offline

LINE = Environment(
    reset=None, step=None, observation_shape=(1,), actions=Continuous(1), random_return=0.0, expert_return=1.0
)
STILL = Policy(  # the only action is 0, with a density of 1/2, that of uniform actions
    init=None, mode=None, score=None,
    sample=lambda params, seen, key: (jnp.zeros(seen.shape), jnp.full(seen.shape[:-1], jnp.log(0.5))),
)
LINEAR = Network(init=None, apply=lambda p, seen, actions: (p[0] * seen[..., 0])[None])  # of the state alone
NUMBERS = dict(discount=0.9, target_rate=0.1, target_entropy=-1.0)
MODELS = {
    'policy': jnp.zeros(()), 'critic': jnp.array([2.0]), 'target': jnp.array([2.0]),
    'temperature': {'log': jnp.zeros(())},
}


def batch_of(real):
  real = jnp.array(real)
  num = real.shape[0]
  share = real.mean()
  seen = jnp.arange(1.0, num + 1)[:, None]
  return {
      'observations': seen, 'next_observations': seen, 'actions': jnp.zeros((num, 1)),
      'rewards': jnp.zeros(num), 'terminated': jnp.zeros(num, bool), 'offline': real,
      'kind_share': jnp.where(real, share, 1 - share),
  }


@jax.jit
def gap(batch):
  parent = sac(None, LINE, STILL, LINEAR, networks.positive(initial=1.0), **NUMBERS)
  algorithm = combo(parent, STILL, LINEAR, conservatism=3.0, num_actions=2)
  loss, metrics = algorithm.loss(MODELS, batch, jax.random.key(0))
  return loss, metrics['loss/conservative']


def test_dreamt_states_are_pushed_down_and_real_ones_held_up():
  """Q = 2 s whatever is done, and the volume of actions is 2: log ∫ exp Q da = 2 s + log 2. Of the states
  1, 2, 3, 4, 5 the first two are real."""
  batch = batch_of([True, True, False, False, False])
  loss, found = gap(batch)
  np.testing.assert_allclose(found, (2 * 4 + np.log(2)) - 2 * 1.5, rtol=1e-5)
  # Nothing is paid and the action is known: y = 0.9 (2 s - log 1/2), Q = 2 s. Policy: log 1/2 - 2 s. With the
  # wanted entropy of -1, the temperature's loss is -log 1 (...) = 0.
  seen = np.arange(1, 6)
  parent = np.mean((2 * seen - 0.9 * (2 * seen + np.log(2))) ** 2) + np.mean(-np.log(2) - 2 * seen)
  np.testing.assert_allclose(loss, parent + 3 * found, rtol=1e-5)


@pytest.mark.slow
def test_the_gap_does_not_depend_on_how_rows_are_split():
  batch = batch_of([True, True, False, False])
  half = lambda rows: gap(jax.tree.map(lambda x: x[rows], batch))[1]
  np.testing.assert_allclose(half(slice(0, 2)) / 2 + half(slice(2, 4)) / 2, gap(batch)[1], rtol=1e-5)


def standing():
  """Nothing moves, pays 1 and ends; how unsure the model is does not matter here."""

  def apply(params, seen, actions):
    del params, actions
    mean = jnp.concatenate([jnp.zeros_like(seen), jnp.ones(seen.shape)], axis=1)[None]
    return mean, jnp.full(mean.shape, -30.0), jnp.full((1, seen.shape[0]), -9.0)

  return dynamics.Dynamics(init=None, apply=apply, num=1)


@pytest.mark.slow
def test_a_batch_says_what_is_real_and_pays_what_the_model_says():
  data = {**batch_of([True, True]), 'truncated': jnp.zeros(2, bool)}
  rollout = real_and_dreamt(data, STILL, standing(), horizon=3, real_rows=2, dreams=2)
  batch, world = rollout({**MODELS, 'dynamics': {}}, {'data': rollout.data}, jax.random.key(0))
  assert world == {}
  np.testing.assert_array_equal(batch['offline'], [True] * 2 + [False] * 6)
  np.testing.assert_array_equal(batch['rewards'], [0] * 2 + [1] * 6)
  np.testing.assert_allclose(batch['kind_share'], [0.25] * 2 + [0.75] * 6)


# --- on a point mass, beside MOPO ---------------------------------------------------------------------------

SEEDS, STEPS, GOAL = 5, 1000, (0.7, 0.7)
SHAPE = dict(hidden=(32, 32), activation='relu')
ENV = pointmass(max_steps=100, friction=0.5, start=(-0.7, -0.7), start_radius=0.2, goal=GOAL, obstacles=())
POLICY = networks.squashed_gaussian(ENV, **SHAPE)
CRITIC, TEMPERATURE = networks.critics(ENV, num=2, layer_norm=True, **SHAPE), networks.positive(initial=0.1)
MODEL = dynamics.ensemble(ENV, num=3, **SHAPE)
SOFT = dict(discount=0.97, target_rate=0.01, target_entropy=-1.5)


@functools.cache
def mixed():
  return steered(
      ENV, goal=GOAL, gain=0.8, damping=0.8, noise=0.5, random_share=0.67, num_envs=30, num_steps=200,
      discount=0.97, seed=0,
  )


@functools.cache
def worlds():
  """The model after the first stage, one a seed."""
  first = agents.Agent(mopo(offline(mixed(), batch_size=128), MODEL), None, {'dynamics': MODEL}, {})
  state, metrics = agents.trained(first, optax.adam(1e-3), jax.random.split(jax.random.key(3), SEEDS), STEPS)
  return state.params['dynamics'], metrics


def scores(algorithm):
  """[SEEDS] after the second stage, in the model of the first."""
  trained = {'policy': POLICY, 'critic': CRITIC, 'temperature': TEMPERATURE}
  agent = agents.Agent(algorithm, POLICY, trained, {'target': 'critic'})
  optimizer = optax.adam(1e-3)
  train_step = step.make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)

  def run(key, world, data):
    state = agents.initial_state(agent, optimizer, key)
    state = state.replace(slow={**state.slow, 'dynamics': world})
    state, _ = step.repeat(train_step, STEPS)(state, data)
    act = lambda params, seen, key: POLICY.mode(params, seen)
    played = evaluation.play(ENV, act, state.params['policy'], jax.random.key(2), 16, 100)
    return played['return'].mean()

  keys = jax.random.split(jax.random.key(1), SEEDS)
  returns = jax.jit(jax.vmap(run, (0, 0, None)))(keys, worlds()[0], mixed())
  return np.asarray(ENV.score(returns))


def combo_scores():
  rollout = real_and_dreamt(mixed(), POLICY, MODEL, horizon=5, real_rows=64, dreams=13)
  parent = sac(rollout, ENV, POLICY, CRITIC, TEMPERATURE, **SOFT)
  return scores(combo(parent, POLICY, CRITIC, conservatism=1.0, num_actions=4))


def mopo_scores(penalty):
  rollout = penalised_dreams(mixed(), POLICY, MODEL, horizon=5, penalty=penalty, real_rows=64, dreams=13)
  return scores(sac(rollout, ENV, POLICY, CRITIC, TEMPERATURE, **SOFT))


@pytest.mark.slow
def test_it_finds_the_controller_in_mixed_data():
  """Where cloning scores 0 and the noisy controller among the records 84 to 91, COMBO after 1000 updates in a
  model of 1000 scores 63, 8, 89, 76 and 92; MOPO in the same models 80, 79, 46, 60 and 84. Neither is better
  here, and COMBO's worst seed is far below its median, 76."""
  ours, theirs = combo_scores(), mopo_scores(penalty=1.0)
  assert np.median(ours) > 50 and np.median(theirs) > 50, (ours, theirs)
