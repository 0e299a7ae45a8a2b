"""A comparison is never parted: any order, cut, packing and mesh gives the same gradient."""

import dataclasses
import functools

import algorithms_table as table
import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from rlx import sharding
from rlx.algorithms.dpo import dpo
from rlx.engine.packing import Packing
from rlx.losses import comparisons, preference
from rlx.step import make_train_step
from rlx.types import Algorithm, State

NUM = 12  # rows


def state_of(optimizer):
  policy = jax.jit(table.MODEL.init)(jax.random.key(0))
  noisy = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(jax.random.key(1), x.shape), policy)
  return State(
      step=jnp.int32(0), params={'policy': noisy}, slow={'reference': policy},
      opt_state=optimizer.init({'policy': noisy}), world={}, key=jax.random.key(2),
  )


def taken(loss, weight, policy=table.POLICY, mesh=None, **updates):
  """The state and the metrics behind one step of SGD, so that parameters show gradients."""
  algorithm = dpo(table.compared(NUM), policy, policy, loss=loss, weight=weight)
  optimizer = optax.sgd(1.0)
  updates = {'epochs': 1, 'minibatches': 1, 'microbatches': 1, **updates}
  step = jax.jit(make_train_step(algorithm, optimizer, **updates))
  if mesh is None:
    return jax.device_get(step(state_of(optimizer)))
  with jax.set_mesh(mesh):
    axes = dict.fromkeys(('policy', 'reference'), table.MODEL.axes)
    state = state_of(optimizer)
    return jax.device_get(step(jax.device_put(state, sharding.state_shardings(state, mesh, axes))))


MIXED = functools.partial(
    preference.plus, first=functools.partial(preference.bco, beta=0.5),
    second=functools.partial(preference.aot, beta=0.5), weight=0.3,
)


@pytest.mark.slow
@pytest.mark.parametrize(('loss', 'weight'), [
    (functools.partial(preference.aot_unpaired, beta=0.5), comparisons.even),
    (MIXED, comparisons.on_policy),
])
def test_what_is_no_sum_over_rows_does_not_depend_on_how_they_are_cut(loss, weight):
  """Micro-batches, packing, and eight devices, over which the comparisons do not even divide."""
  whole_state, whole = taken(loss, weight)
  packing = Packing(columns=12, rows=2, share_prompts=True)
  scoring = dataclasses.replace(table.SCORING, packing=packing)
  ways = [
      {'microbatches': 6},
      {'mesh': sharding.make_mesh(data=4, fsdp=2, tensor=1)},
      {'policy': dataclasses.replace(table.POLICY, scoring=scoring)},
  ]
  for way in ways[: 3 if weight is comparisons.on_policy else 1]:  # what compiles for long is a slow test
    state, metrics = taken(loss, weight, **way)
    chex.assert_trees_all_close(state.params, whole_state.params, rtol=2e-4, atol=2e-6)
    chex.assert_trees_all_close(metrics, whole, rtol=2e-4, atol=2e-6)
  start = state_of(optax.sgd(1.0)).params
  moved = jax.tree.map(lambda a, b: jnp.abs(a - b).max(), whole_state.params, start)
  assert max(jax.tree.leaves(moved)) > 1e-3


def numbered(together, parts):
  """An algorithm whose rows are numbers, and what each of its updates sees."""
  rows = {'x': jnp.arange(24.0)}
  survey = lambda models, batch, key: {**batch, 'mean': jnp.full(batch['x'].shape, batch['x'].mean())}

  def loss(models, batch, key):
    pairs = batch['x'].reshape(-1, together)
    whole = jnp.all(pairs - pairs[:, :1] == jnp.arange(together)[None])
    whole &= jnp.all(pairs[:, 0] % together == 0)
    value = jnp.mean(models['policy'] * batch['x'])
    return value, {'whole': whole.astype(jnp.float32), 'mean_max': batch['mean'].max()}

  algorithm = Algorithm(
      rollout=lambda models, world, key: (rows, world), loss=loss, survey=survey, together=together
  )
  step = make_train_step(algorithm, optax.sgd(0.1), epochs=4, **parts)
  params = {'policy': jnp.zeros(())}
  state = State(
      step=jnp.int32(0), params=params, slow={}, opt_state=optax.sgd(0.1).init(params), world={},
      key=jax.random.key(0),
  )
  return jax.jit(step)(state)


@pytest.mark.parametrize('together', [1, 2, 3])
def test_minibatches_and_microbatches_are_of_whole_comparisons(together):
  state, metrics = numbered(together, {'minibatches': 2, 'microbatches': 2})
  assert metrics['whole'] == 1
  assert metrics['mean_max'] != 11.5, 'the survey sees the minibatch, and not all rows'
  np.testing.assert_allclose(state.params['policy'], -0.1 * 8 * 11.5, rtol=1e-6)  # every row once an epoch


@pytest.mark.parametrize(('parts', 'words'), [
    ({'minibatches': 8, 'microbatches': 1}, r'minibatches=8 does not divide the 12 comparisons \(of 2 rows'),
    ({'minibatches': 4, 'microbatches': 2}, 'microbatches=2 does not divide the 3 comparisons'),
])
def test_what_would_part_a_comparison_is_refused(parts, words):
  with pytest.raises(ValueError, match=words):
    numbered(2, parts)


def test_levels_by_hand():
  tokens = jnp.array([[1.0, 2, 4, 8], [1, 1, 1, 1], [3, 3, 3, 3], [5, 7, 9, 9]])
  mask = jnp.array([[0, 1, 1, 1], [0, 1, 1, 0], [1, 0, 0, 0], [1, 1, 1, 0]], bool)
  assert comparisons.summed(tokens, mask).tolist() == [14, 2, 3, 21]
  np.testing.assert_allclose(comparisons.averaged(tokens, mask), [14 / 3, 1, 3, 7], rtol=1e-6)
  desensitised = functools.partial(comparisons.desensitised, tokens, mask)
  assert desensitised(alpha=0.5).tolist() == [2 + 4 + 4, 2, 3, 5 + 3.5 + 4.5]
  assert desensitised(alpha=1.0).tolist() == [14, 2, 3, 21]
  with pytest.raises(ValueError, match='alpha=2.0: from 0 to 1'):
    desensitised(alpha=2.0)


X = np.linspace(-3, 3, 7).astype(np.float32)


def test_divergences_are_derivatives_and_meet_at_the_reference():
  """f'(u) of f(u) = u log u, -log u, and the rest of f-DPO's table, up to a constant; u = exp x."""
  u = np.exp(X)
  np.testing.assert_allclose(comparisons.reverse_kl(X), np.log(u), rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(comparisons.forward_kl(X), -1 / u, rtol=1e-5)
  np.testing.assert_allclose(comparisons.jensen_shannon(X), np.log(2 * u / (1 + u)), rtol=1e-5, atol=1e-6)
  half = comparisons.alpha_divergence(X, alpha=0.5)
  np.testing.assert_allclose(half, (1 - u**-0.5) / 0.5, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(comparisons.alpha_divergence(X, alpha=1e-4), X, rtol=1e-3, atol=1e-6)
  np.testing.assert_allclose(comparisons.alpha_divergence(X, alpha=1.0), 1 - 1 / u, rtol=1e-5, atol=1e-6)
  for divergence in (comparisons.reverse_kl, comparisons.forward_kl, comparisons.jensen_shannon):
    assert jax.grad(divergence)(0.0) > 0
  with pytest.raises(ValueError, match='alpha=0'):
    comparisons.alpha_divergence(X, alpha=0.0)


def test_what_is_as_likely_as_under_the_reference_is_a_guess():
  found = comparisons.right(jnp.array([1.0, -1, 1e-6, 0]), jnp.zeros(4))
  assert found.tolist() == [1, 0, 0.5, 0.5]


def test_weights_of_wpo_by_hand():
  logprobs = jnp.log(jnp.array([[0.5, 0.5], [0.25, 1.0]]))
  collision = jnp.array([[0.5, 0.5], [0.5, 1.0]])
  mask = jnp.array([[1, 1], [1, 0]], bool)
  assert comparisons.on_policy(logprobs, collision, mask).tolist() == [0.5]
  assert comparisons.even(logprobs).tolist() == [1]
  likelier = jnp.log(jnp.array([[0.9, 0.9], [0.9, 1.0]]))
  assert comparisons.on_policy(likelier, collision, mask).tolist() == [1], 'at most 1'


def test_losses_inside_of_losses_are_asked_too():
  inner = functools.partial(preference.plus, first=preference.bco, second=preference.nll, weight=1.0)
  loss = functools.partial(preference.plus, first=preference.aot, second=inner, weight=1.0)
  assert comparisons.asked(loss) & comparisons.SURVEYED == {'shift', 'margin_below'}
  assert not comparisons.asked(functools.partial(preference.sigmoid, beta=1.0)) & comparisons.SURVEYED
