"""FamO2O (S039): one policy for every balance, and another that picks the balance of each state."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import pytest

from rlx.algorithms.control import famo2o as paper
from rlx.data import transitions as datasets
from rlx.models import networks
from rlx.rollout.control.offline import offline
from rlx.rollout.control.warm import warm_replay

SHAPE = dict(hidden=(32, 32), activation='relu')
NUMBERS = dict(
    discount=0.95, target_rate=0.02, expectile=0.8, lowest=0.0, highest=5.0, weight_max=100.0,
    target_entropy=0.0,
)


def parts():
  return (
      paper.family(toy.ENV, initial_log_std=-1.0, **SHAPE), networks.state_value(toy.ENV, **SHAPE),
      networks.critics(toy.ENV, num=2, layer_norm=True, **SHAPE), networks.positive(initial=0.1),
  )


def named(nets):
  return dict(zip(('policy', 'value', 'critic', 'temperature'), nets, strict=True))


def test_balances_span_the_coefficients():
  found = paper.coefficient(jnp.array([[-1.0], [0.0], [1.0]]), lowest=1.0, highest=5.0)
  np.testing.assert_allclose(found, [1, 3, 5])


def test_members_are_told_their_balance():
  of = parts()[0]
  params = of.init(jax.random.key(0))
  seen = jnp.ones((3, 4)) / 2
  low, high = (paper.told(seen, jnp.full((3, 1), x)) for x in (-1.0, 1.0))
  assert low.shape == (3, 5)
  means = [of.members.mode(params['members'], x) for x in (low, high)]
  assert (jnp.abs(means[0] - means[1]) > 1e-5).any()
  picked = of.balance.mode(params['balance'], seen)
  np.testing.assert_array_equal(
      of.mode(params, seen), of.members.mode(params['members'], paper.told(seen, picked))
  )


@pytest.fixture(scope='module')
def slopes():
  """Gradients of the loss for the policy, with a critic that prefers large first actions."""
  policy, value, critic, temperature = parts()
  critic = dataclasses.replace(critic, apply=lambda params, s, a: jnp.stack([a[..., 0]] * 2))
  nets = policy, value, critic, temperature
  rows = toy.driven(num_envs=2)
  models = jax.tree.map(lambda x: x[0], toy.fresh(named(nets), jax.random.key(0), seeds=1))

  def of(**changes):
    algorithm = paper.famo2o(offline(rows, batch_size=32), *nets, **{**NUMBERS, **changes})
    batch = jax.tree.map(lambda x: x[:32], rows)
    return jax.grad(lambda m: algorithm.loss(m, batch, jax.random.key(2))[0])(models)

  return of


def largest(tree):
  return max(float(jnp.abs(x).max()) for x in jax.tree.leaves(tree))


@pytest.mark.slow
def test_the_range_moves_the_members_alone(slopes):
  narrow, wide = slopes(highest=0.0), slopes(highest=5.0)
  moved = jax.tree.map(jnp.subtract, narrow, wide)
  assert largest(moved['policy']['members']) > 1e-4
  for tree in (moved['policy']['balance'], moved['critic'], moved['value'], moved['temperature']):
    assert largest(tree) < 1e-7


@pytest.mark.slow
def test_at_no_sharpness_the_members_clone(slopes):
  """β = 0 for all of them: whatever the values are, the gradient is that of -mean log π(a | s, β)."""
  a, b = slopes(lowest=0.0, highest=0.0), slopes(lowest=0.0, highest=0.0, expectile=0.5, weight_max=1.0)
  jax.tree.map(np.testing.assert_array_equal, a['policy']['members'], b['policy']['members'])
  assert largest(a['policy']['members']) > 1e-3


def mixed_records(num_envs=40):
  """Of two drivers: left of the middle a bad one, right of it a good one."""

  def act(observations, key):
    steer = 3.0 * (jnp.array(toy.GOAL)[None] - observations[:, :2]) - 2.0 * observations[:, 2:]
    noise = jnp.where(observations[:, :1] > -0.1, 0.1, 1.5)
    return jnp.clip(steer + noise * jax.random.normal(key, steer.shape), -1, 1)

  return datasets.roll_out(toy.ENV, act, jax.random.key(0), num_envs=num_envs, num_steps=toy.MAX_STEPS)


@pytest.mark.slow
def test_the_balance_depends_on_the_data_and_learning_goes_on_online():
  """In [0, 5], the β that is picked is larger by 1.7 (median of 5 seeds; worst 1.4) where the good driver is.
  Offline the family earns -19.3 (worst seed -20.1), and the fixed β = 2.5 -20.9 (-21.1); each seed is better.
  After 200 updates online they are -21.1 (-22.7) and -20.8 (-22.0): three seeds of five are better, so that
  the claim for online is told no more exactly than that they are alike.
  """
  nets, rows = parts(), mixed_records()
  online = warm_replay(
      toy.ENV, nets[0], num_envs=2, num_steps=1, capacity=1000, warmup_steps=80, batch_size=64
  )
  begin = toy.fresh(named(nets), jax.random.key(0))
  good = np.asarray(rows['observations'][:, 0] > -0.1)
  picked, returns = {}, {}
  for name, lowest in (('family', 0.0), ('fixed', 2.5)):
    numbers = {**NUMBERS, 'lowest': lowest, 'highest': NUMBERS['highest'] - lowest}
    models, _, _ = toy.stage(
        paper.famo2o(offline(rows, batch_size=64), *nets, **numbers), begin, policy=nets[0], chunks=1,
        steps=500,
    )
    _, after, _ = toy.stage(
        paper.famo2o(online, *nets, **numbers), models, policy=nets[0], chunks=4, steps=50, key=2
    )
    chosen = jax.vmap(lambda m: paper.coefficient(
        nets[0].balance.mode(m['policy']['balance'], rows['observations']), lowest=lowest,
        highest=numbers['highest'],
    ))(models)
    picked[name] = np.asarray(chosen[:, good].mean(axis=1) - chosen[:, ~good].mean(axis=1))
    returns[name] = after
  assert picked['family'].min() > 0.5 and np.abs(picked['fixed']).max() < 1e-5
  better = returns['family'] - returns['fixed']
  assert np.median(better[:, 0]) > 0.5
  assert np.median(returns['family'][:, -1]) > np.median(returns['fixed'][:, -1]) - 1
