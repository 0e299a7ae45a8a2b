"""ResFiT (S176): a frozen plan in chunks, and a residual that sees what the plan does not."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import o2o_toy as toy
import pytest

from rlx.algorithms.control.resfit import cloning
from rlx.algorithms.control.td3 import td3
from rlx.data import behaviours
from rlx.envs.control.insertion import insertion
from rlx.envs.control.wrappers import chunked
from rlx.models import networks
from rlx.models.residual import residual
from rlx.optimizers import adam_per_model
from rlx.rollout.control.mixed import with_dataset
from rlx.rollout.control.offline import offline
from rlx.rollout.control.warm import warm_replay

CHUNK = 6
SHAPE = dict(hidden=(32, 32), activation='relu')
# A residual as fast as its critic leaves the clone at once, before the critic knows where the hole is.
SLOW_POLICY = adam_per_model(
    learning_rates={'policy': 1e-4, 'critic': 1e-3}, periods={'policy': 1, 'critic': 1}, b1=0.9, b2=0.999,
    eps=1e-8,
)
PEG = functools.partial(insertion, max_steps=30, drift=0.06, tolerance=0.08)
ENV = chunked(inner=PEG, chunk=CHUNK)


def policy(scale=0.5, noise=0.1):
  return residual(
      ENV, chunk=CHUNK, base_hidden=(32, 32), hidden=(32, 32), activation='relu', scale=scale,
      exploration_noise=noise,
  )


def demonstrations():
  return behaviours.inserting(
      ENV, speed=0.7, gain=3.0, noise=0.2, num_envs=50, num_steps=60, discount=0.97, seed=0
  )


def test_a_peg_is_in_the_hole_or_not():
  env = insertion(max_steps=30, drift=0.0, tolerance=0.08)
  state, seen = env.reset(jax.random.key(0))
  for miss, paid in ((0.07, 1.0), (0.09, 0.0), (-0.07, 1.0)):
    there = jnp.array([0.9, seen[2] + miss, seen[2]])
    state = jax.tree.map(lambda x, there=there: there if x.shape == (3,) else x, state)
    new = env.step(state, jnp.array([1.0, 0.0]), jax.random.key(1))
    assert new.reward == paid and new.info['success'] == paid and new.terminated
    assert not env.step(state, jnp.array([-1.0, 0.0]), jax.random.key(1)).terminated
  with pytest.raises(ValueError, match='tolerance=0'):
    insertion(max_steps=30, drift=0.0, tolerance=0.0)


def test_chunks_show_where_they_began():
  env = chunked(inner=PEG, chunk=2)
  state, seen = env.reset(jax.random.key(0))
  first = np.asarray(seen[:3])
  np.testing.assert_array_equal(seen[3:], [*first, 1, 0])
  one = env.step(state, jnp.zeros(2), jax.random.key(1))
  np.testing.assert_array_equal(one.observation[3:], [*first, 0, 1])
  two = env.step(one.state, jnp.zeros(2), jax.random.key(2))
  np.testing.assert_array_equal(two.observation[3:], [*two.observation[:3], 1, 0])
  assert two.observation[1] != one.observation[1]


def test_the_base_carries_its_plan_out_without_looking():
  of = policy()
  params = of.init(jax.random.key(0))
  begin, now, place = jnp.array([0.1, 0.2, 0.3]), jnp.array([0.5, 0.5, 0.3]), jax.nn.one_hot(2, CHUNK)
  seen = jnp.concatenate([now, begin, place])
  np.testing.assert_array_equal(of.mode(params, seen), of.base(params, seen))  # the residual begins at zero
  other = jnp.concatenate([now + 1, begin, place])
  np.testing.assert_array_equal(of.base(params, other), of.base(params, seen))
  later = jnp.concatenate([now, begin, jax.nn.one_hot(3, CHUNK)])
  assert np.abs(of.base(params, later) - of.base(params, seen)).max() > 1e-4


@pytest.mark.slow
def test_the_residual_is_bounded_and_leaves_the_base_alone():
  of = policy(scale=0.3)
  params = of.init(jax.random.key(0))
  params['residual']['layers'][-1]['bias'] = jnp.array([100.0, -100.0])
  seen = jnp.concatenate([jnp.zeros(6), jax.nn.one_hot(0, CHUNK)])
  moved = of.mode(params, seen) - of.base(params, seen)
  np.testing.assert_allclose(moved, [0.3, -0.3], atol=1e-6)
  slope = jax.grad(lambda p: of.mode(p, seen).sum())(params)
  assert all((x == 0).all() for x in jax.tree.leaves(slope['base']))
  cloned = jax.grad(lambda p: of.base(p, seen).sum())(params)
  assert all((x == 0).all() for x in jax.tree.leaves(cloned['residual']))
  assert any((x != 0).any() for x in jax.tree.leaves(cloned['base']))


def test_a_chunk_of_another_length_is_refused():
  with pytest.raises(ValueError, match='chunk=5'):
    residual(
        ENV, chunk=5, base_hidden=(8,), hidden=(8,), activation='relu', scale=0.1, exploration_noise=0.1
    )
  with pytest.raises(ValueError, match='chunk=0'):
    chunked(inner=PEG, chunk=0)


@pytest.mark.slow
def test_the_residual_begins_as_the_clone_and_the_base_stays():
  """The clone inserts in 52 % of episodes (median of 5 seeds; 46 % to 54 %), for it does not see the drift
  within a chunk. Over the 480 steps (1920 updates) that follow, the residual policy inserts in 24 % (worst
  seed 7 %), and TD3 of a whole policy with the same data, critic and updates in 0 % (best seed 7 %): each
  seed is better on its base than without.

  That fine-tuning ends above the clone does not show in this budget: the share falls from 43 % at the first
  evaluation to 1 % at the last, while the critic learns where the hole is. With ten times the steps it rises
  again, which `offline2online/resfit_insertion` claims.
  """
  of, whole = policy(), networks.deterministic(ENV, exploration_noise=0.1, **SHAPE)
  critic = networks.critics(ENV, num=2, layer_norm=True, **SHAPE)
  demos = demonstrations()
  play = functools.partial(toy.stage, env=ENV, episodes=100)
  both = toy.fresh({'policy': of, 'critic': critic}, jax.random.key(0))
  cloned, arrived, _ = play(
      cloning(offline(demos, batch_size=128), of), {'policy': both['policy']}, policy=of, chunks=1,
      steps=1500,
  )
  clone = arrived[:, -1]

  def finetuned(chosen, params):
    online = warm_replay(
        ENV, chosen, num_envs=4, num_steps=1, capacity=2000, warmup_steps=200, batch_size=256
    )
    algorithm = td3(
        with_dataset(online, demos, share=0.5), chosen, critic, discount=0.97, smoothing_noise=0.1,
        noise_clip=0.2, target_rate=0.02, target_period=1,
    )
    models = {
        'policy': params, 'critic': both['critic'], 'target': both['target'],
        'target_policy': jax.tree.map(jnp.copy, params),
    }
    return play(
        algorithm, models, policy=chosen, chunks=6, steps=80, minibatches=4, optimizer=SLOW_POLICY,
        slow=('target', 'target_policy'),
    )

  models, corrected, _ = finetuned(of, cloned['policy'])
  _, full, _ = finetuned(whole, toy.fresh({'policy': whole}, jax.random.key(3))['policy'])
  jax.tree.map(np.testing.assert_array_equal, models['policy']['base'], cloned['policy']['base'])
  np.testing.assert_array_equal(corrected[:, 0], clone)
  assert 0.4 < np.median(clone) < 0.65
  over = lambda arrived: arrived[:, 1:].mean(axis=1)
  assert np.median(over(corrected)) > np.median(over(full)) + 0.1
