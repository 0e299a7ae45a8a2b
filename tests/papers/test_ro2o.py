"""RO2O (S196): what is smooth, and what that is worth when learning goes online."""

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import pytest

from rlx.algorithms.control import ro2o as paper
from rlx.algorithms.control.sac import sac
from rlx.models.networks import Policy
from rlx.rollout.control.offline import offline
from rlx.rollout.control.warm import warm_replay

SMOOTH = dict(
    radius=0.1, num_perturbations=4, asymmetry=0.2, value_smoothness=0.5, policy_smoothness=0.1,
    doubt_coef=0.1, doubt_deviations=0.5,
)
OFF = dict(SMOOTH, value_smoothness=0.0, policy_smoothness=0.0, doubt_coef=0.0)


def test_rises_cost_more_than_falls():
  costs = paper.uneven_square(jnp.array([2.0, -2.0, 0.0]), asymmetry=0.2)
  np.testing.assert_allclose(costs, [0.8 * 4, 0.2 * 4, 0], rtol=1e-6)


def test_perturbed_states_are_within_the_radius_and_fill_it():
  states = jnp.array([[1.0, -3.0], [0.0, 5.0]])
  near = paper.around(states, jax.random.key(0), radius=0.25, num=200)
  moved = jnp.abs(near - states[None]).max(axis=0)
  assert near.shape == (200, 2, 2)
  assert (moved <= 0.25 + 1e-5).all() and (moved > 0.24).all()


def test_the_divergence_of_gaussians_of_one_width_is_exact():
  """(μ - μ')² / σ² summed over the action, whatever the noise; here μ = s and σ = 1/2."""
  std = 0.5

  def sample(params, observations, key):
    noise = jax.random.normal(key, observations.shape)
    actions = observations + std * noise
    return actions, score(params, observations, actions)[0]

  def score(params, observations, actions):
    unit = (actions - observations) / std
    return jnp.sum(-unit**2 / 2 - jnp.log(std), axis=-1), None

  policy = Policy(init=None, sample=sample, mode=None, score=score)
  states, others = jnp.array([[0.0, 1.0]]), jnp.array([[0.3, 0.5]])
  for seed in range(3):
    found = paper.jeffreys(policy, None, states, others, jax.random.key(seed))
    np.testing.assert_allclose(found, [(0.3**2 + 0.5**2) / std**2], rtol=1e-4)


def loss_of(**numbers):
  nets = toy.nets(num=3)
  data = toy.driven(num_envs=4)
  batch = jax.tree.map(lambda x: x[:16], data)
  models = jax.tree.map(lambda x: x[0], toy.fresh(nets._asdict(), jax.random.key(0), seeds=1))
  rollout = offline(data, batch_size=16)
  parent = sac(rollout, toy.ENV, *nets, **toy.SAC)
  of = paper.ro2o(parent, nets.policy, nets.critic, **numbers)
  key = jax.random.key(1)
  slope = lambda algorithm, k: jax.jit(jax.grad(lambda m: algorithm.loss(m, batch, k)[0]))(models)
  return slope(of, key), slope(parent, jax.random.split(key, 4)[0])


@pytest.mark.slow
def test_without_its_weights_it_is_sac():
  ours, sacs = loss_of(**OFF)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), ours, sacs)


@pytest.mark.slow
@pytest.mark.parametrize('term, model', [
    ('value_smoothness', 'critic'), ('doubt_coef', 'critic'), ('policy_smoothness', 'policy'),
])
def test_each_term_moves_one_model(term, model):
  ours, sacs = loss_of(**{**OFF, term: 1.0})
  for name in ('policy', 'critic', 'temperature'):
    moved = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), ours[name], sacs[name])
    largest = max(jax.tree.leaves(moved))
    assert (largest > 1e-5) if name == model else (largest < 1e-6), (name, largest)


def slope_near_data(nets, models, data):
  """Mean over data and seeds of |Q(ŝ, a) - Q(s, a)| / |ŝ - s|∞, relative to the spread of Q: [seeds]."""
  rows = jax.tree.map(lambda x: x[:500], data)
  near = paper.around(rows['observations'], jax.random.key(3), radius=0.1, num=4)

  def one(models):
    actions = jnp.broadcast_to(rows['actions'][None], (4, *rows['actions'].shape))
    values = nets.critic.apply(models['critic'], rows['observations'], rows['actions'])
    moved = nets.critic.apply(models['critic'], near, actions) - values[:, None]
    return jnp.abs(moved).mean() / 0.1 / values.std()

  return np.asarray(jax.vmap(one)(models))


@pytest.mark.slow
def test_smoother_values_and_what_they_are_worth_online():
  """The slope of the values around the data, relative to their spread, is 1.14 (median of 5 seeds), and 1.17
  for SAC-N; it is lower in each seed. After 800 offline updates the policy earns -61 (worst seed -79), and
  -80 (-80) for SAC-N; after 200 updates online -30 (-48), and -55 (-76).

  Where SAC-N with 4 members learns nothing offline it has nothing to lose, so the claim of a smaller dip at
  the switch cannot be told here: the median dip is 0 for both, and the largest, 13, is of a seed of RO2O.
  """
  nets, data = toy.nets(num=4), toy.driven(num_envs=40)
  plain = lambda rollout: sac(rollout, toy.ENV, *nets, **toy.SAC)
  factories = {
      'ro2o': lambda rollout: paper.ro2o(plain(rollout), nets.policy, nets.critic, **SMOOTH), 'sac_n': plain,
  }
  online = warm_replay(
      toy.ENV, nets.policy, num_envs=2, num_steps=1, capacity=1000, warmup_steps=80, batch_size=64
  )
  slopes, returns = {}, {}
  for name, factory in factories.items():
    begin = toy.fresh(nets._asdict(), jax.random.key(0))
    models, _, _ = toy.stage(
        factory(offline(data, batch_size=64)), begin, policy=nets.policy, chunks=1, steps=800
    )
    slopes[name] = slope_near_data(nets, models, data)
    _, after, _ = toy.stage(factory(online), models, policy=nets.policy, chunks=8, steps=25, key=2)
    returns[name] = after
  assert (slopes['ro2o'] < slopes['sac_n']).all()
  assert np.median(returns['ro2o'][:, 0]) > np.median(returns['sac_n'][:, 0]) + 5
  assert np.median(returns['ro2o'][:, -1]) > np.median(returns['sac_n'][:, -1]) + 10
