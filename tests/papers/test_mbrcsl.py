"""MBRCSL: dreams put episodes together, and then a return that nobody earned can be asked for."""

import goal_toy
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import step
from rlx.algorithms.control.mbrcsl import mbrcsl
from rlx.algorithms.control.rcsl import rcsl
from rlx.data import transitions as datasets
from rlx.envs.control.wrappers import commanded, with_return
from rlx.evaluation import episodes as evaluation
from rlx.models import dynamics, networks
from rlx.models.networks import Policy
from rlx.rollout.control.dreams import best_dreams, dream
from rlx.rollout.control.offline import offline

SHAPE = dict(hidden=(32, 32), activation='relu')
SEEDS, MAX_STEPS = 5, 30


def world(start, max_steps=MAX_STEPS, target=goal_toy.FAR_PAY):
  return commanded(env=lambda: goal_toy.line(start=start, max_steps=max_steps), target=target)


ENV = world(0.0)
POLICY = networks.categorical(ENV, **SHAPE)
MODEL = dynamics.ensemble(ENV, num=3, **SHAPE)


def stitching_data(key):
  """From 0 nobody earned 1: some went left for 0.8, others right until the time was up. A third kind began
  where those were left, and went on to the right end. A tenth of all moves is the other one."""

  def going(action):
    return lambda seen, key: jnp.where(jax.random.bernoulli(key, 0.9, seen.shape[:1]), action, 1 - action)

  keys = jax.random.split(key, 3)
  play = lambda env, action, key, num: datasets.roll_out(env, going(action), key, num_envs=20, num_steps=num)
  data = datasets.concatenate(
      play(ENV, 0, keys[0], 60), play(world(0.0, max_steps=7), 1, keys[1], 56),
      play(world(goal_toy.MIDDLE), 1, keys[2], 40),
  )
  return {**data, 'returns_to_go': datasets.returns_to_go(data, discount=1.0)}


def test_a_commanded_environment_shows_what_is_left_to_earn():
  env = world(0.8, target=1.5)
  state, seen = env.reset(jax.random.key(0))
  np.testing.assert_allclose(seen, [0.8, 1.5])
  new = env.step(state, 1, jax.random.key(0))
  np.testing.assert_allclose(new.observation, [0.9, 1.5], rtol=1e-6)
  new = env.step(new.state, 1, jax.random.key(0))
  np.testing.assert_allclose(new.observation, [1.0, 0.5], rtol=1e-6)
  assert new.terminated and new.reward == 1
  np.testing.assert_allclose(with_return(jnp.ones((2, 3)), jnp.array([4.0, 5.0]))[:, 2], [4, 5])


def test_the_loss_is_the_likelihood_of_the_action_for_the_return_that_followed():
  batch = {
      'observations': jnp.zeros((2, 2)), 'actions': jnp.array([0, 1]), 'returns_to_go': jnp.array([0.8, 1.0])
  }
  params = POLICY.init(jax.random.key(0))
  loss, _ = rcsl(None, POLICY).loss({'policy': params}, batch, None)
  seen = jnp.array([[0, 0.8], [0, 1.0]])
  np.testing.assert_allclose(loss, -POLICY.score(params, seen, batch['actions'])[0].mean(), rtol=1e-6)


def exact_model():
  """The line as a model, with a reward of the position reached and an end beyond ±0.95."""

  def apply(params, observations, actions):
    del params
    change = jnp.stack([goal_toy.STEP * (2.0 * actions - 1), jnp.zeros(actions.shape)], axis=1)
    new = observations[:, 0] + change[:, 0]
    mean = jnp.concatenate([change, new[:, None]], axis=1)[None]
    return mean, jnp.full(mean.shape, -30.0), jnp.where(jnp.abs(new) > 0.95, 9.0, -9.0)[None]

  return dynamics.Dynamics(init=lambda key: {}, apply=apply, num=1)


def going_right():
  sample = lambda params, seen, key: (jnp.ones(seen.shape[0], jnp.int32), jnp.zeros(seen.shape[0]))
  return Policy(init=lambda key: {}, sample=sample, mode=None, score=None)


def test_a_dream_by_hand():
  """From 0.75 it is two or three steps to the end; what comes behind it counts nothing."""
  models, starts = {'behaviour': {}, 'dynamics': {}}, jnp.array([[0.75, 0.0]])
  rows = dream(going_right(), exact_model(), models, starts, jax.random.key(0), max_steps=5)
  np.testing.assert_allclose(rows['observations'][0, :3, 0], [0.75, 0.85, 0.95], rtol=1e-5)
  np.testing.assert_array_equal(rows['alive'][0][:2], True)
  assert not rows['alive'][0, 4]
  steps = int(rows['alive'].sum())
  paid = np.where(np.arange(5) < steps, 0.85 + 0.1 * np.arange(5), 0)
  np.testing.assert_allclose(rows['rewards'][0], paid, rtol=1e-5)
  np.testing.assert_allclose(rows['returns_to_go'][0], np.cumsum(paid[::-1])[::-1], rtol=1e-5)


def beginning_at(*starts):
  """Episodes of two steps each, all but the beginning of which is of no interest."""
  seen = [[x, 7.0] for start in starts for x in (start, 9.0)]
  ends = jnp.array([False, True] * len(starts))
  return {'observations': jnp.array(seen), 'terminated': ends, 'truncated': jnp.zeros_like(ends)}


@pytest.mark.slow
def test_only_the_best_dreams_are_kept_and_only_their_living_steps_are_drawn():
  """From 0.73 they are worth 0.83 + 0.93 + 1.03, from 0.93 only 1.03."""
  rollout = best_dreams(
      beginning_at(0.73, 0.93), going_right(), exact_model(), num=40, max_steps=6, kept_share=0.25,
      batch_size=200,
  )
  world = rollout.warm_up({'behaviour': {}, 'dynamics': {}}, rollout.begin(None), jax.random.key(0))
  batch, _ = rollout({}, world, jax.random.key(1))
  np.testing.assert_allclose(batch['dream/return'], 2.79, rtol=1e-5)
  found = np.unique(np.round(np.asarray(batch['observations'][:, 0]), 4))
  np.testing.assert_allclose(found, [0.73, 0.83, 0.93])
  left = {0.73: 2.79, 0.83: 1.96, 0.93: 1.03}
  wanted = [left[round(float(x), 2)] for x in batch['observations'][:, 0]]
  np.testing.assert_allclose(batch['returns_to_go'], wanted, rtol=1e-5)


def test_to_keep_none_is_refused():
  with pytest.raises(ValueError, match='kept_share=0.001'):
    best_dreams(beginning_at(0.0), POLICY, MODEL, num=10, max_steps=2, kept_share=1e-3, batch_size=1)


def trained(algorithm, networks_by_name, slow, data, steps, key):
  optimizer = optax.adam(3e-3)
  keys = jax.random.split(key, len(networks_by_name) + 1)
  params = {name: net.init(k) for (name, net), k in zip(networks_by_name.items(), keys[1:], strict=True)}
  train_step = step.make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=1)
  state = step.begin(algorithm, optimizer, params, slow, keys[0])
  return step.repeat(train_step, steps)(state, data)


def both(key):
  """Policies of RCSL alone and of MBRCSL, and what the dreams that were kept earned."""
  data_key, model_key, policy_key = jax.random.split(key, 3)
  data = stitching_data(data_key)
  rows = offline(data, batch_size=128)
  alone, _ = trained(rcsl(rows, POLICY), {'policy': POLICY}, {}, data, 800, policy_key)
  first = mbrcsl(rows, POLICY, MODEL, reward_coef=0.0)
  models, _ = trained(first, {'behaviour': POLICY, 'dynamics': MODEL}, {}, data, 2500, model_key)
  dreams = best_dreams(
      beginning_at(0.0), POLICY, MODEL, num=512, max_steps=MAX_STEPS, kept_share=0.1, batch_size=128
  )
  stitched, metrics = trained(rcsl(dreams, POLICY), {'policy': POLICY}, models.params, None, 800, policy_key)
  return alone.params['policy'], stitched.params['policy'], metrics['dream/return'][0]


def went_right(params, target):
  """Share of episodes that end where 1 is paid."""
  act = lambda params, seen, key: POLICY.sample(params, seen, key)[0]
  return evaluation.play(
      world(0.0, target=target), act, params, jax.random.key(1), 50, MAX_STEPS
  )['right'].mean()


@pytest.mark.slow
def test_dreams_stitch_what_conditioning_alone_cannot():
  """Asked for 1, RCSL goes right in no episode of any seed, MBRCSL in all (median 1, worst 0.96). The dreams
  that are kept promise 0.03 to 0.5 and not the 1 that is paid at the end: the small model takes the jump of
  the reward for noise, but has the order of the dreams right. With `reward_coef` 1 it promises what is paid,
  and the tenth that promises most is no longer the best: median 0.78, worst 0. That Q-learning diverges here
  is not tried. What the near end pays (0.8) and how long the model is trained were set with the first runs in
  sight."""
  alone, stitched, dreamt = jax.jit(jax.vmap(both))(jax.random.split(jax.random.key(0), SEEDS))
  alone, stitched = jax.jit(jax.vmap(jax.vmap(went_right, (0, None)), (0, None)))(
      jax.tree.map(lambda *x: jnp.stack(x), alone, stitched), goal_toy.FAR_PAY
  )
  assert np.max(alone) < 0.1, alone
  assert np.median(stitched) > 0.95 and np.min(stitched) > 0.8, stitched
  assert np.isfinite(dreamt).all() and np.max(dreamt) < 1.1, dreamt
