"""TacSL (S215): a peg that finds its hole by touch, and a critic that has seen the hole before."""

import functools

from exploration_toy import first_success
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import staged

from rlx import lens
from rlx.algorithms.control.ppo import ppo
from rlx.algorithms.control.tacsl import tacsl
from rlx.envs.control import tactile
from rlx.envs.control.conformance import check_environment
from rlx.models import networks, views
from rlx.rollout.control.unroll import unroll

SEEDS, TAXELS, MAX_STEPS = 5, 8, 40
PEG = dict(max_steps=MAX_STEPS, start_radius=3.0, distance_cost=0.02, press_cost=0.02)
ENV = tactile.tactile(taxels=TAXELS, noise=0.02, **PEG)
FELT, NUM = TAXELS**2 + 1, ENV.observation_shape[0]


# --- the peg ------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_peg_keeps_the_contract():
  check_environment(tactile.tactile(taxels=2, noise=0.1, **{**PEG, 'max_steps': 6}), num_steps=6)


@pytest.mark.parametrize(
    'place, move, led_to',
    [
        ((3, 0, -0.2), (-0.5, 0.5, 0), (2.6, 0.4, -0.2)),  # pressed to a fifth: it slides four fifths
        ((3, 0, -0.6), (-0.5, 0, 0.1), (2.8, 0, -0.5)),
        ((3, 0, -1), (-0.5, 0.5, 0), (3, 0, -1)),  # not at all
        ((3, 0, -0.8), (0, 0, -0.5), (3, 0, -1)),  # the table
        ((3, 0, -0.4), (0, 0, 0.5), (3, 0, -0.2)),  # it is never lifted off
        ((5.9, -5.9, -0.2), (0.5, -0.5, 0), (6, -6, -0.2)),
        ((0.8, 0, -0.2), (-0.5, 0, -0.5), (0.4, 0, -0.7)),  # into the hole
        ((0.4, 0, -0.7), (0, 0, -0.5), (0.4, 0, -1.2)),
        ((0.4, 0, -1.2), (0.5, 0, 0), (0.495, 0, -1.2)),  # whose wall holds it
        ((0.4, 0, -0.2), (0.5, 0, 0), (0.9, 0, -0.2)),  # but not at its edge
        ((0, 0, -2.9), (0, 0, -0.5), (0, 0, -3)),
    ],
)
def test_moves_by_hand(place, move, led_to):
  found = tactile.moved(jnp.array(place, jnp.float32), jnp.array(move))
  np.testing.assert_allclose(found, led_to, atol=1e-6)


def test_touch_is_of_the_side_that_rests_on_the_table():
  """3 mm to the right of the hole the foot rests on the table where x > 1.5 mm, the middle of column 5."""
  image = tactile.footprint(jnp.array([3.0, 0.0, -0.2]), TAXELS)
  assert image.shape == (TAXELS, TAXELS)
  middle = np.asarray(image[3])
  assert middle[:5].max() < 0.02 and 0.4 < middle[5] < 0.6 and middle[6:].min() > 0.98
  above = tactile.footprint(jnp.array([0.0, 3.0, -0.2]), TAXELS)
  np.testing.assert_allclose(above, image.T, atol=1e-6)
  assert tactile.footprint(jnp.zeros(3), TAXELS).max() < 0.1, 'above the hole there is nothing but its edge'
  far = tactile.footprint(jnp.array([9.0, 0.0, -0.2]), TAXELS)
  np.testing.assert_allclose(far.sum(), np.sum(np.asarray(far) > 0.5), rtol=1e-2)
  assert far[0, 0] == 0 and far[4, 0] > 0.9, 'the foot is round'


def test_what_is_seen_and_paid():
  env = tactile.tactile(taxels=TAXELS, noise=0.0, **PEG)
  state = lambda place: (jnp.array(place), jnp.int32(0))
  step = lambda place, action: env.step(state(place), jnp.array(action), jax.random.key(0))
  new = step([3.0, 0.0, -0.5], [0.0, 8.0, 0.0])
  place = np.array([3.0, 0.25, -0.5])
  image = 0.5 * tactile.footprint(jnp.asarray(place, jnp.float32), TAXELS)
  np.testing.assert_allclose(tactile.touch(new.observation), [*image.reshape(-1), -0.5 / 3], atol=1e-6)
  np.testing.assert_allclose(
      tactile.privileged(new.observation), [3 / 4, 0.25 / 4, -0.5 / 3, 0.5], atol=1e-6
  )
  np.testing.assert_allclose(new.reward, -0.02 * np.hypot(3, 0.25) / 4 - 0.02 * 0.5, rtol=1e-5)
  assert not new.terminated and new.info['success'] == 0
  new = step([0.2, 0.0, -2.8], [0.0, 0.0, -1.0])
  np.testing.assert_allclose(new.reward, 1 - 0.02 * 0.2 / 4, rtol=1e-5)
  assert new.terminated and new.info['success'] == 1


@pytest.mark.parametrize('changes', [dict(taxels=1), dict(noise=-0.1), dict(start_radius=7.0)])
def test_a_peg_that_cannot_be_is_refused(changes):
  name, value = next(iter(changes.items()))
  with pytest.raises(ValueError, match=f'{name}={value}'):
    tactile.tactile(**{**PEG, 'taxels': TAXELS, 'noise': 0.0, **changes})


# --- the algorithm ------------------------------------------------------------------------------------------

SHAPE = dict(hidden=(32, 32), activation='tanh')
NUMBERS = dict(
    clip_low=0.2, clip_high=0.2, entropy_coef=0.0, value_coef=0.5, value_clip=10.0, discount=0.99,
    lambda_=0.95,
)


def sees(first, last, network, **changes):
  return views.sees(ENV, network=lambda env: network(env, **{**SHAPE, **changes}), first=first, last=last)


POLICY = sees(0, FELT, networks.gaussian, initial_log_std=-0.5)
TEACHER = sees(FELT, NUM, networks.gaussian, initial_log_std=-0.5)
VALUE = sees(FELT, NUM, networks.state_value)


TAUGHT = {'policy': 'teacher'}  # the role that the teacher has in the first stage


def rollout(num_envs=16, num_steps=32):
  return unroll(ENV, POLICY, num_envs=num_envs, num_steps=num_steps)


def teacher_rollout(num_envs=16, num_steps=32):
  return lens.bind(unroll(ENV, TEACHER, num_envs=num_envs, num_steps=num_steps), TAUGHT)


def teaching(rollout):
  return lens.bind(ppo(rollout and lens.uncast(rollout), TEACHER, VALUE, **NUMBERS), TAUGHT)


def taught_by(rollout, coef):
  return tacsl(ppo(rollout, POLICY, VALUE, **NUMBERS), POLICY, TEACHER, teacher_coef=coef)


def some_models():
  keys = jax.random.split(jax.random.key(0), 3)
  nets = {'policy': POLICY, 'value': VALUE, 'teacher': TEACHER}
  return {name: net.init(key) for (name, net), key in zip(nets.items(), keys, strict=True)}


def some_rows(num=6):
  keys = jax.random.split(jax.random.key(1), 3)
  actions = jax.random.normal(keys[1], (num, 3))
  ones = jnp.ones(num)
  return {
      'observations': jax.random.normal(keys[0], (num, NUM)), 'actions': actions,
      'sampler_logprobs': -4 * ones, 'advantages': jax.random.normal(keys[2], (num,)), 'values': ones,
      'returns': 2 * ones,
  }


@functools.partial(jax.jit, static_argnums=0)
def slopes(loss, models, batch, coef):
  """Loss, metrics and slopes of `loss: coefficient -> function`."""
  of_models = lambda models: loss(coef)(models, batch, jax.random.key(2))
  return jax.value_and_grad(of_models, has_aux=True)(models)


def moves(tree):
  return any((x != 0).any() for x in jax.tree.leaves(tree))


@pytest.mark.slow
def test_the_teacher_adds_a_divergence_that_moves_the_policy_alone():
  models, batch = some_models(), some_rows()
  drawn = lambda coef: taught_by(None, coef).loss
  plain, pulled = (slopes(drawn, models, batch, coef) for coef in (0.0, 0.5))
  parent = slopes(lambda coef: ppo(None, POLICY, VALUE, **NUMBERS).loss, models, batch, 0.0)
  np.testing.assert_allclose(plain[0][0], parent[0][0], rtol=1e-6)  # AACD differs by its critic's beginning
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), plain[1], parent[1])
  (loss, metrics), slope = pulled
  np.testing.assert_allclose(loss, plain[0][0] + 0.5 * metrics['kl/teacher'], rtol=1e-5)
  assert abs(metrics['kl/teacher']) > 1e-3
  assert moves(jax.tree.map(jnp.subtract, slope['policy'], plain[1]['policy']))
  jax.tree.map(np.testing.assert_array_equal, slope['value'], plain[1]['value'])
  assert not moves(slope['teacher'])


@pytest.mark.slow
def test_in_the_first_stage_the_teacher_acts_and_learns():
  models = some_models()
  draw = teacher_rollout(num_envs=2, num_steps=3)
  batch, _ = jax.jit(draw.draw)(models, draw.begin(jax.random.key(0)), jax.random.key(1))
  logprobs, _ = TEACHER.score(models['teacher'], batch['observations'], batch['actions'])
  np.testing.assert_allclose(batch['sampler_logprobs'], logprobs, rtol=1e-4)
  learnt = lambda coef: teaching(None).loss
  _, slope = slopes(learnt, models, some_rows(), 0.0)
  assert moves(slope['teacher']) and moves(slope['value']) and not moves(slope['policy'])


# --- learning -----------------------------------------------------------------------------------------------

TRAIN = dict(optimizer=optax.adam(1e-3), epochs=4, minibatches=4)


@functools.cache
def taught(steps=80):
  """A teacher and its critic, [SEEDS, ...]."""
  params = staged.begun({'teacher': TEACHER, 'value': VALUE}, jax.random.key(0), SEEDS)
  algorithm = teaching(teacher_rollout())
  return staged.stage(algorithm, params, {}, steps=steps, key=jax.random.key(1), **TRAIN)


@functools.cache
def pupils(critic, coef, steps=60):
  """Metrics [SEEDS, steps] of policies that feel: whose critic is the teacher's, or a new one."""
  teacher, _ = taught()
  params = staged.begun({'policy': POLICY, 'value': VALUE}, jax.random.key(2), SEEDS)
  if critic == 'taught':
    params['value'] = teacher['value']
  algorithm = taught_by(rollout(), coef)
  held = {'teacher': teacher['teacher']}
  return staged.stage(algorithm, params, held, steps=steps, key=jax.random.key(3), **TRAIN)


@pytest.mark.slow
def test_a_policy_that_has_a_teacher_inserts_the_peg_sooner():
  """Train steps of 512 steps of the world until half of the last episodes insert the peg, by seed.

  With the teacher's critic and c = 0.3: 11, 9, 10, 10, 9. From scratch, with a critic that sees the truth as
  well: 40, 32, 41, 54, and not within 60 in the fifth seed. The teacher itself, who sees the truth, needs 13,
  21, 12, 49 and 27, and is trained for 80.

  What does *not* show is the paper's own algorithm, c = 0: with the teacher's critic and no other help two
  seeds arrive after 24 and 33 steps, and three learn to rest beside the hole at little cost (return -0.2) and
  have not arrived within 60. Nor is the critic of use beside the teacher's term: with that term and a new
  critic it is 9, 9, 10, 11, 11. Both are from one run and not asserted.
  """
  _, scratch = pupils('new', 0.0)
  _, distilled = pupils('taught', 0.3)
  sooner, later = (np.nan_to_num(first_success(metrics), nan=np.inf) for metrics in (distilled, scratch))
  assert np.median(sooner) < np.median(later) / 2 and sooner.max() < later.min()
  assert distilled['episode/success'][:, -5:].mean(axis=1).min() > 0.95
