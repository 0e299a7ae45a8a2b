"""FamO2O (S039): one policy for every balance, and another that picks the balance of each state."""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import pytest

from rlx.algorithms.control import famo2o as paper
from rlx.data import transitions as datasets
from rlx.models import networks
from rlx.models.family import balance, family, family_members, told
from rlx.rollout.control.offline import offline
from rlx.rollout.control.warm import warm_replay

SHAPE = dict(hidden=(32, 32), activation='relu')
NUMBERS = dict(
    discount=0.95, target_rate=0.02, expectile=0.8, lowest=0.0, highest=5.0, weight_max=100.0,
    target_entropy=0.0,
)


class Parts(NamedTuple):
  members: networks.Policy
  balance: networks.Policy
  value: networks.Network
  critic: networks.Network
  temperature: networks.Network


def parts():
  return Parts(
      members=family_members(toy.ENV, initial_log_std=-1.0, **SHAPE), balance=balance(toy.ENV, **SHAPE),
      value=networks.state_value(toy.ENV, **SHAPE),
      critic=networks.critics(toy.ENV, num=2, layer_norm=True, **SHAPE),
      temperature=networks.positive(initial=0.1),
  )


def test_balances_span_the_coefficients():
  found = paper.coefficient(jnp.array([[-1.0], [0.0], [1.0]]), lowest=1.0, highest=5.0)
  np.testing.assert_allclose(found, [1, 3, 5])


def test_members_are_told_their_balance():
  nets = parts()
  pair, keys = family(nets.members, nets.balance), jax.random.split(jax.random.key(0))
  models = {'members': nets.members.init(keys[0]), 'balance': nets.balance.init(keys[1])}
  seen = jnp.ones((3, 4)) / 2
  low, high = (told(seen, jnp.full((3, 1), x)) for x in (-1.0, 1.0))
  assert low.shape == (3, 5)
  means = [nets.members.mode(models['members'], x) for x in (low, high)]
  assert (jnp.abs(means[0] - means[1]) > 1e-5).any()
  picked = nets.balance.mode(models['balance'], seen)
  wanted = nets.members.mode(models['members'], told(seen, picked))
  np.testing.assert_array_equal(pair.functions.mode(pair.view(None, models), seen), wanted)


@pytest.fixture(scope='module')
def slopes():
  """Gradients of the loss for the policy, with a critic that prefers large first actions."""
  nets = parts()
  judge = dataclasses.replace(nets.critic, apply=lambda params, s, a: jnp.stack([a[..., 0]] * 2))
  nets = nets._replace(critic=judge)
  rows = toy.driven(num_envs=2)
  models = jax.tree.map(lambda x: x[0], toy.fresh(nets._asdict(), jax.random.key(0), seeds=1))

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
  assert largest(moved['members']) > 1e-4
  for name in ('balance', 'critic', 'value', 'temperature'):
    assert largest(moved[name]) < 1e-7


@pytest.mark.slow
def test_at_no_sharpness_the_members_clone(slopes):
  """β = 0 for all of them: whatever the values are, the gradient is that of -mean log π(a | s, β)."""
  a, b = slopes(lowest=0.0, highest=0.0), slopes(lowest=0.0, highest=0.0, expectile=0.5, weight_max=1.0)
  jax.tree.map(np.testing.assert_array_equal, a['members'], b['members'])
  assert largest(a['members']) > 1e-3


def mixed_records(num_envs=40):
  """Of two drivers: left of the middle a bad one, right of it a good one."""

  def act(observations, key):
    steer = 3.0 * (jnp.array(toy.GOAL)[None] - observations[:, :2]) - 2.0 * observations[:, 2:]
    noise = jnp.where(observations[:, :1] > -0.1, 0.1, 1.5)
    return jnp.clip(steer + noise * jax.random.normal(key, steer.shape), -1, 1)

  return datasets.roll_out(toy.ENV, act, jax.random.key(0), num_envs=num_envs, num_steps=toy.MAX_STEPS)


@pytest.mark.slow
def test_the_balance_depends_on_the_data_and_learning_goes_on_online():
  """In [0, 5], the β that is picked is larger by 1.5 (median of 5 seeds; worst 1.4) where the good driver is.
  Offline the family earns -19.3 (worst seed -20.5), and the fixed β = 2.5 -20.3 (-21.7); each seed is better.
  After 200 updates online they are -19.2 (-22.3) and -18.9 (-26.2): three seeds of five are better, so that
  the claim for online is told no more exactly than that they are alike.
  """
  nets, rows = parts(), mixed_records()
  pair = family(nets.members, nets.balance)
  seen = lambda models: {**models, 'policy': pair.view(None, models)}
  stage = functools.partial(toy.stage, policy=pair.functions, seen=seen)
  online = warm_replay(
      toy.ENV, pair.functions, num_envs=2, num_steps=1, capacity=1000, warmup_steps=80, batch_size=64
  )
  begin = toy.fresh(nets._asdict(), jax.random.key(0))
  good = np.asarray(rows['observations'][:, 0] > -0.1)
  picked, returns = {}, {}
  for name, lowest in (('family', 0.0), ('fixed', 2.5)):
    numbers = {**NUMBERS, 'lowest': lowest, 'highest': NUMBERS['highest'] - lowest}
    models, _, _ = stage(
        paper.famo2o(offline(rows, batch_size=64), *nets, **numbers), begin, chunks=1, steps=500
    )
    _, after, _ = stage(paper.famo2o(online, *nets, **numbers), models, chunks=4, steps=50, key=2)
    chosen = jax.vmap(lambda m: paper.coefficient(
        nets.balance.mode(m['balance'], rows['observations']), lowest=lowest, highest=numbers['highest']
    ))(models)
    picked[name] = np.asarray(chosen[:, good].mean(axis=1) - chosen[:, ~good].mean(axis=1))
    returns[name] = after
  assert picked['family'].min() > 0.5 and np.abs(picked['fixed']).max() < 1e-5
  better = returns['family'] - returns['fixed']
  assert np.median(better[:, 0]) > 0.5
  assert np.median(returns['family'][:, -1]) > np.median(returns['fixed'][:, -1]) - 1
