"""What stands around a reward model: a contrastive term and a meta step. https://arxiv.org/abs/2401.06080"""

import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx.algorithms.bradley_terry import bradley_terry
from rlx.algorithms.contrasted import contrasted
from rlx.algorithms.meta_step import meta_step
from rlx.envs import gold
from rlx.models.gold import hidden
from rlx.rollout import pairs
from rlx.rollout.gold import groups
from rlx.step import make_train_step
from rlx.types import State, StatefulRollout

WORLD = jax.jit(gold.gold_worlds(
    num_prompts=3, num_answers=6, width=4, hump=0.0, hidden=0.0, spread=1.0
).make)(jax.random.key(0))
WORLDS = gold.Worlds(make=lambda key: WORLD)
HIDDEN, LINEAR = gold.Hidden(), gold.Linear()
N = 8  # comparisons
LABELLED = jax.jit(gold.labelled, static_argnames='num')
ROWS = LABELLED(WORLD, jax.random.key(1), num=N, sharpness=2.0)
SAMPLES = LABELLED(WORLD, jax.random.key(2), num=N, sharpness=0.0)


def of(rows):
  return StatefulRollout(begin=lambda key: {}, draw=lambda models, world, key: (rows, world), data=None)


def hidden_params():
  own = hidden(WORLDS, size=5).init(jax.random.key(3), {'world': WORLD})
  return {'inner': own['inner'], 'outer': jnp.linspace(-1, 1, 5), 'world': WORLD}


def value_of(algorithm, batch):
  """The loss as a function of the reward model's parameters."""
  key = jax.random.key(4)
  return lambda own: algorithm.loss(
      {'judge': own}, algorithm.advantage({'judge': own}, batch, key), jax.random.key(5)
  )


WITH_SAMPLES = {**ROWS, **{f'shifted_{name}': SAMPLES[name] for name in ('tokens', 'valid', 'action_mask')}}


def test_a_meta_step_by_hand():
  """Two comparisons, a linear model: up the slope of sigma(|r_1 - r_2|), and the loss of the labels there."""
  v = np.array([0.5, -0.2, 0.1, 0.3])
  features = np.asarray(WORLD.features, float)
  at = lambda rows: features[np.asarray(rows['tokens'][:, 0]), np.asarray(rows['tokens'][:, 1])]
  sigmoid = lambda x: 1 / (1 + np.exp(-x))
  first, second = at(SAMPLES)[0::2], at(SAMPLES)[1::2]
  lead = (first - second) @ v
  slope = (sigmoid(np.abs(lead)) * sigmoid(-np.abs(lead)) * np.sign(lead)) @ (first - second) / N
  ahead = v + 0.7 * slope
  better, worse = at(ROWS)[0::2], at(ROWS)[1::2]
  expected = np.mean(np.log1p(np.exp(-(better - worse) @ ahead)))
  gradient = np.mean(-sigmoid(-(better - worse) @ ahead)[:, None] * (better - worse), axis=0)
  algorithm = meta_step(bradley_terry(of(WITH_SAMPLES), LINEAR), LINEAR, rate=0.7, among=N)
  own = {'direction': jnp.asarray(v, jnp.float32), 'world': WORLD}
  (value, metrics), found = jax.value_and_grad(value_of(algorithm, WITH_SAMPLES), has_aux=True)(own)
  np.testing.assert_allclose(value, expected, rtol=1e-5)
  np.testing.assert_allclose(found['direction'], gradient, rtol=1e-4)
  np.testing.assert_allclose(metrics['judge/told_apart'], np.mean(sigmoid(np.abs(lead))), rtol=1e-5)


@pytest.mark.slow
def test_without_a_step_or_a_weight_it_is_the_parent():
  parent = bradley_terry(of(WITH_SAMPLES), HIDDEN)
  own = hidden_params()
  (expected, _), gradient = jax.value_and_grad(value_of(parent, WITH_SAMPLES), has_aux=True)(own)
  for algorithm in (
      meta_step(parent, HIDDEN, rate=0.0, among=2),
      contrasted(parent, HIDDEN, weight=0.0, temperature=0.5, dropout=0.3, among=4),
  ):
    (value, _), found = jax.value_and_grad(value_of(algorithm, WITH_SAMPLES), has_aux=True)(own)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    np.testing.assert_allclose(found['inner'], gradient['inner'], rtol=1e-4, atol=1e-6)


def test_the_contrastive_term_by_hand():
  """Of three comparisons whose differences are known, with nearly no dropout: InfoNCE of their cosines."""
  differences = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 3.0]])
  embedded = np.stack([differences, np.zeros((3, 2))], axis=1).reshape(6, 2)
  judge = types.SimpleNamespace(
      apply=lambda params, batch: params @ jnp.ones(2), embed=lambda params, batch: params
  )
  rows = jax.tree.map(lambda x: x[:6], ROWS)
  cosines = (unit := differences / np.linalg.norm(differences, axis=1, keepdims=True)) @ unit.T
  logits = cosines / 0.5
  expected = np.mean(np.log(np.exp(logits).sum(axis=1)) - np.diag(logits))
  algorithm = contrasted(
      bradley_terry(of(rows), judge), judge, weight=1.0, temperature=0.5, dropout=1e-7, among=3
  )
  _, metrics = value_of(algorithm, rows)(jnp.asarray(embedded, jnp.float32))
  np.testing.assert_allclose(metrics['loss/contrastive'], expected, rtol=1e-5)


@pytest.mark.slow
def test_views_of_a_comparison_come_together():
  """Following the slope of the term alone, a view finds its own among the others more often."""
  own = hidden_params()
  algorithm = contrasted(
      bradley_terry(of(ROWS), HIDDEN), HIDDEN, weight=1.0, temperature=0.2, dropout=0.4, among=N
  )
  term = lambda inner: value_of(algorithm, ROWS)({**own, 'inner': inner})[1]['loss/contrastive']
  inner = own['inner']
  begun = term(inner)
  for _ in range(30):
    inner = inner - 0.3 * jax.grad(term)(inner)
  assert float(term(inner)) < float(begun) - 0.05


@pytest.mark.slow
@pytest.mark.parametrize('kind', ['contrasted', 'meta'])
def test_it_does_not_depend_on_micro_batches(kind):
  """Groups stay together, whatever minibatches and micro-batches are made of."""
  parent = bradley_terry(of(WITH_SAMPLES), HIDDEN)
  algorithm = (
      contrasted(parent, HIDDEN, weight=0.5, temperature=0.5, dropout=0.3, among=2) if kind == 'contrasted'
      else meta_step(parent, HIDDEN, rate=2.0, among=2)
  )
  optimizer = optax.sgd(0.5)

  def taken(microbatches):
    own = hidden_params()
    state = State(
        step=jnp.int32(0), params={'judge': own}, slow={}, opt_state=optimizer.init({'judge': own}), world={},
        key=jax.random.key(6),
    )
    step = make_train_step(algorithm, optimizer, epochs=1, minibatches=1, microbatches=microbatches)
    return jax.jit(step)(state)[0].params['judge']['inner']

  assert float(jnp.abs(taken(1) - hidden_params()['inner']).max()) > 1e-3
  np.testing.assert_allclose(taken(4), taken(1), rtol=1e-4, atol=1e-6)


def test_samples_stand_beside_comparisons():
  policy = gold.LogLinear()
  samples = groups(WORLDS, policy, batch_size=2 * N, group_size=2)
  rollout = pairs.with_samples(of(ROWS), samples)
  models = {'world': WORLD, 'policy': policy.init(WORLD)}
  batch, _ = jax.jit(rollout.draw)(models, rollout.begin(jax.random.key(0)), jax.random.key(1))
  np.testing.assert_array_equal(batch['tokens'], ROWS['tokens'])
  first, second = batch['shifted_tokens'][0::2], batch['shifted_tokens'][1::2]
  np.testing.assert_array_equal(first[:, 0], second[:, 0])  # of one prompt
  too_few = pairs.with_samples(of(ROWS), groups(WORLDS, policy, batch_size=4, group_size=2))
  with pytest.raises(ValueError, match='16 rows of comparisons and 4 of samples; take as many'):
    too_few.draw(models, too_few.begin(jax.random.key(0)), jax.random.key(1))
  alone = meta_step(bradley_terry(of(ROWS), LINEAR), LINEAR, rate=1.0, among=N)
  with pytest.raises(ValueError, match='no samples beside them; put pairs.with_samples around'):
    value_of(alone, ROWS)({**LINEAR.init(WORLD)})


@pytest.mark.parametrize(('make', 'words'), [
    (functools.partial(contrasted, weight=-1.0, temperature=1.0, dropout=0.1, among=2), 'weight=-1.0'),
    (functools.partial(contrasted, weight=1.0, temperature=0.0, dropout=0.1, among=2), 'temperature=0'),
    (functools.partial(contrasted, weight=1.0, temperature=1.0, dropout=1.0, among=2), 'dropout=1'),
    (functools.partial(contrasted, weight=1.0, temperature=1.0, dropout=0.1, among=1), 'among=1'),
    (functools.partial(meta_step, rate=-1.0, among=2), 'rate=-1'),
    (functools.partial(meta_step, rate=1.0, among=0), 'among=0'),
])
def test_numbers_out_of_their_range_are_refused(make, words):
  with pytest.raises(ValueError, match=words):
    make(bradley_terry(of(ROWS), HIDDEN), HIDDEN)
