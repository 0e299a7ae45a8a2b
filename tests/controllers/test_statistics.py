"""The table of prompts against a loop over everything that was seen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.controllers import statistics

NUM, BATCHES, ROWS, KEEP = 5, 4, 8, 0.75
RNG = np.random.default_rng(0)
PROMPTS = RNG.integers(0, 4, (BATCHES, ROWS)).astype(np.int32)  # the last prompt never occurs
REWARDS = RNG.integers(0, 2, (BATCHES, ROWS)).astype(np.float32)
ENTROPIES, NORMS = RNG.uniform(0.1, 2, (2, BATCHES, ROWS)).astype(np.float32)
SCORED = RNG.uniform(size=(BATCHES, ROWS)) < 0.8


@jax.jit
def update(table, rows, rewards, step, mask, entropies, norms):
  return statistics.update(
      table, rows, rewards, step, keep=KEEP, mask=mask, entropies=entropies, gradient_norms=norms
  )


@functools.cache
def tables():
  """The tables after each batch, from one scan."""
  step = lambda table, x: (update(table, *x),) * 2
  arrays = (PROMPTS, REWARDS, np.arange(BATCHES, dtype=np.int32), SCORED, ENTROPIES, NORMS)
  return jax.jit(lambda table: jax.lax.scan(step, table, arrays)[1])(statistics.init(NUM))


def assert_same(table, other):
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-6), table, other)


def test_a_table_against_a_loop():
  nothing = {'tries': 0, 'sum': 0, 'recent': np.zeros(2), 'best': 0, 'seen': -1, 'h': 0, 'g': 1}
  known = [dict(nothing) for _ in range(NUM)]
  for i in range(BATCHES):
    for n, entry in enumerate(known):
      chosen = (PROMPTS[i] == n) & SCORED[i]
      if chosen.any():
        rewards = REWARDS[i][chosen]
        entry['tries'] += len(rewards)
        entry['sum'] += rewards.sum()
        entry['recent'] = KEEP * entry['recent'] + [rewards.sum(), (1 - rewards).sum()]
        entry['best'] = max(entry['best'], rewards.mean())
        entry['seen'], entry['h'], entry['g'] = i, ENTROPIES[i][chosen].mean(), NORMS[i][chosen].mean()
    table = jax.tree.map(lambda x, i=i: x[i], tables())
    column = lambda name: np.array([entry[name] for entry in known])
    np.testing.assert_array_equal(table.tries, column('tries'))
    np.testing.assert_array_equal(table.last_seen, column('seen'))
    for values, name in (
        (table.successes, 'sum'), (table.best, 'best'), (table.entropies, 'h'), (table.gradient_norms, 'g'),
    ):
      np.testing.assert_allclose(values, column(name), rtol=1e-6)
    np.testing.assert_allclose(np.stack(table.recent, 1), column('recent'), rtol=1e-6)


def test_types_and_shapes_stay():
  """A scan refuses a carry whose shape, dtype or weak type changes; here for every dtype of a reward."""
  table = statistics.init(NUM)
  for dtype in (jnp.float32, jnp.int32, jnp.bfloat16, jnp.bool_):
    rewards = jax.ShapeDtypeStruct((ROWS,), dtype)
    new = jax.eval_shape(lambda t, r: statistics.update(t, PROMPTS[0], r, 3, keep=1.0), table, rewards)
    for old, leaf in zip(jax.tree.leaves(table), jax.tree.leaves(new), strict=True):
      assert (old.shape, old.dtype) == (leaf.shape, leaf.dtype) and not old.weak_type and not leaf.weak_type


def test_a_population_of_tables_is_each_of_them():
  init = jax.tree.map(lambda x: np.stack([x, x]), statistics.init(NUM))
  batches = (PROMPTS[:2], REWARDS[:2], np.arange(2, dtype=np.int32), SCORED[:2], ENTROPIES[:2], NORMS[:2])
  both = jax.jit(jax.vmap(update))(init, *batches)
  for i in range(2):
    one = update(statistics.init(NUM), *(x[i] for x in batches))
    assert_same(jax.tree.map(lambda x, i=i: x[i], both), one)


def test_the_order_of_rows_does_not_matter():
  batch = (PROMPTS[0], REWARDS[0], SCORED[0], ENTROPIES[0], NORMS[0])
  order = RNG.permutation(ROWS)
  apply = lambda rows, rewards, *rest: update(statistics.init(NUM), rows, rewards, np.int32(0), *rest)
  assert_same(apply(*batch), apply(*(x[order] for x in batch)))


@pytest.mark.parametrize('outside', [-1, NUM, NUM + 7])
def test_rows_outside_and_rows_without_reward_are_left_out(outside):
  rows, rewards, everything = PROMPTS[0].copy(), REWARDS[0].copy(), np.ones(ROWS, bool)
  rewards[~SCORED[0]] = np.nan
  masked = update(statistics.init(NUM), rows, rewards, np.int32(0), SCORED[0], ENTROPIES[0], NORMS[0])
  rows[~SCORED[0]] = outside
  moved = update(statistics.init(NUM), rows, rewards, np.int32(0), everything, ENTROPIES[0], NORMS[0])
  assert not SCORED[0].all() and np.all(np.isfinite(masked.successes))
  assert_same(masked, moved)
  assert_same(masked, jax.tree.map(lambda x: x[0], tables()))


def test_what_is_not_measured_stays():
  table = statistics.init(NUM)._replace(entropies=jnp.full(NUM, 0.3), gradient_norms=jnp.full(NUM, 7.0))
  new = jax.jit(functools.partial(statistics.update, keep=KEEP))(table, PROMPTS[0], REWARDS[0], 0)
  np.testing.assert_array_equal(new.entropies, table.entropies)
  np.testing.assert_array_equal(new.gradient_norms, table.gradient_norms)


def test_nothing_known_is_the_prior():
  table, prior = statistics.init(NUM), {'value': 0.25, 'strength': 8.0}
  readers = statistics.posterior, statistics.posterior_mean, statistics.posterior_variance
  beta, mean, variance = jax.jit(lambda table: [read(table, **prior) for read in readers])(table)
  np.testing.assert_allclose(beta, [[2] * NUM, [6] * NUM], rtol=1e-6)
  np.testing.assert_allclose(mean, 0.25, rtol=1e-6)
  np.testing.assert_allclose(variance, 0.25 * 0.75 / 9, rtol=1e-6)
  np.testing.assert_array_equal(statistics.rates(table, unseen=0.4), np.float32(0.4))
  np.testing.assert_array_equal(statistics.progress(table), 0)


def test_the_posterior_by_hand_and_its_doubt_shrinks():
  """Three successes and a failure under a uniform prior are Beta(4, 2)."""
  table = statistics.init(2)
  table = table._replace(recent=statistics.Beta(jnp.array([3.0, 30.0]), jnp.array([1.0, 10.0])))
  prior = {'value': 0.5, 'strength': 2.0}
  variances = statistics.posterior_variance(table, **prior)
  np.testing.assert_allclose(statistics.posterior_mean(table, **prior), [4 / 6, 31 / 42], rtol=1e-6)
  np.testing.assert_allclose(variances, [8 / (36 * 7), 31 * 11 / (42**2 * 43)], rtol=1e-5)
  np.testing.assert_allclose(statistics.rates(table, unseen=0.0), 0.75, rtol=1e-6)


def test_what_is_forgotten_decays_to_the_prior():
  """MoPPS: α <- λ α + (1 - λ) α₀ + Σ r, with the prior in the count and not apart."""
  alpha, beta = np.full(NUM, 0.5), np.full(NUM, 1.5)
  for i in range(BATCHES):
    for n in set(PROMPTS[i][SCORED[i]]):
      rewards = REWARDS[i][(PROMPTS[i] == n) & SCORED[i]]
      alpha[n] = KEEP * alpha[n] + (1 - KEEP) * 0.5 + rewards.sum()
      beta[n] = KEEP * beta[n] + (1 - KEEP) * 1.5 + (1 - rewards).sum()
  last = jax.tree.map(lambda x: x[-1], tables())
  np.testing.assert_allclose(statistics.posterior(last, value=0.25, strength=2.0), [alpha, beta], rtol=1e-5)


def test_progress_is_above_zero_where_a_prompt_gets_better():
  table, rows, everything = statistics.init(NUM), np.arange(ROWS, dtype=np.int32) % 4, np.ones(ROWS, bool)
  for step, rewards in enumerate(([0, 1, 0, 1] * 2, [1, 0, 0, 1] * 2)):
    rewards = np.array(rewards, np.float32)
    table = update(table, rows, rewards, np.int32(step), everything, ENTROPIES[0], NORMS[0])
  np.testing.assert_array_equal(np.sign(statistics.progress(table)), [1, -1, 0, 0, 0])


@pytest.mark.parametrize(
    ('value', 'strength', 'said'),
    [(0.0, 2.0, 'value=0.0'), (1.0, 2.0, 'value=1.0'), (0.5, 0.0, 'strength=0.0')],
)
def test_a_prior_that_is_none_is_refused(value, strength, said):
  with pytest.raises(ValueError, match=said):
    statistics.posterior(statistics.init(NUM), value=value, strength=strength)
