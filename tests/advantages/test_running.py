"""Running statistics against the statistics of everything that was seen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import groups, running

NUM_KEYS, BATCHES, ROWS = 4, 5, 6
RNG = np.random.default_rng(0)
KEYS = RNG.integers(0, 3, (BATCHES, ROWS)).astype(np.int32)  # the last key never occurs
REWARDS = RNG.normal(3, 2, (BATCHES, ROWS)).astype(np.float32)
SUCCESSES = RNG.integers(0, 2, (BATCHES, ROWS)).astype(np.float32)
KEEP = RNG.uniform(0.5, 1, (BATCHES, ROWS)).astype(np.float32)
ALL = np.arange(NUM_KEYS)
READ = {name: jax.jit(getattr(running, name)) for name in ('moments_mean', 'moments_deviation', 'beta_mean')}

UPDATES = {
    'mean': (
        lambda: running.mean_init(NUM_KEYS, value=0.0), functools.partial(running.mean_update, decay=0.9),
    ),
    'moments': (lambda: running.moments_init(NUM_KEYS), functools.partial(running.moments_update, keep=1.0)),
    'beta': (
        lambda: running.beta_init(NUM_KEYS, value=0.5, strength=2.0),
        functools.partial(running.beta_update, keep=0.9),
    ),
}


def after(state, update, *arrays):
  """All states on the way, from one scan."""
  step = lambda state, x: (update(state, *x),) * 2
  return jax.jit(lambda state: jax.lax.scan(step, state, arrays)[1])(state)


@pytest.mark.parametrize('name', UPDATES)
def test_states_can_be_scanned_over_and_keep_their_types(name):
  """A scan refuses a carry whose shape, dtype or weak type changes."""
  init, update = UPDATES[name]
  for leaf in jax.tree.leaves(init()):
    assert leaf.dtype == jnp.float32 and leaf.shape == (NUM_KEYS,) and not leaf.weak_type
  for dtype in (jnp.float32, jnp.int32, jnp.bfloat16):
    new = jax.eval_shape(update, init(), KEYS[0], jax.ShapeDtypeStruct((ROWS,), dtype))
    for leaf in jax.tree.leaves(new):
      assert leaf.dtype == jnp.float32 and leaf.shape == (NUM_KEYS,) and not leaf.weak_type
  one, batch = jax.jit(update)(init(), KEYS[0], SUCCESSES[0]), after(init(), update, KEYS, SUCCESSES)
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y[0], rtol=1e-6), one, batch)


@pytest.mark.parametrize('name', UPDATES)
def test_keys_that_do_not_occur_stay_as_they_are(name):
  init, update = UPDATES[name]
  state = jax.jit(update)(init(), KEYS[0], SUCCESSES[0])
  elsewhere = jax.jit(update)(state, np.full(ROWS, 3, np.int32), SUCCESSES[0])
  for before, new in zip(state, elsewhere, strict=True):
    np.testing.assert_array_equal(before[:3], new[:3])
    assert before[3] != new[3]


def test_the_moving_mean_against_a_loop():
  init, update = UPDATES['mean']
  states, value = after(init(), update, KEYS, REWARDS), np.zeros(NUM_KEYS)
  for i in range(BATCHES):
    for key in set(KEYS[i]):
      value[key] = 0.9 * value[key] + 0.1 * REWARDS[i][KEYS[i] == key].mean()
    np.testing.assert_allclose(states.values[i], value, rtol=1e-5)


def test_rae_leaves_each_role_what_is_not_the_roles_own():
  """Role 0 always gets 1 more than role 1: against one mean it looks better, against its own it does not."""
  roles, luck = np.array([0, 1, 0, 1, 0, 1], np.int32), np.array([0, 0, 1, 1, -1, -1], np.float32)
  rewards, state = luck + (roles == 0), running.mean_init(2, value=0.0)
  update = jax.jit(functools.partial(running.mean_update, decay=0.5))
  for _ in range(30):
    state = update(state, roles, rewards)
  advantages = groups.against(jnp.array(rewards), running.mean_read(state, jnp.array(roles)))
  np.testing.assert_allclose(advantages, luck, atol=1e-5)


def test_moments_are_those_of_all_that_was_seen():
  init, update = UPDATES['moments']
  states = after(init(), update, KEYS, REWARDS)
  for i in range(BATCHES):
    now = jax.tree.map(lambda x, i=i: x[i], states)
    means, deviations = READ['moments_mean'](now, ALL), READ['moments_deviation'](now, ALL)
    for key in range(3):
      seen = REWARDS[: i + 1][KEYS[: i + 1] == key].astype(np.float64)
      assert now.counts[key] == len(seen)
      if len(seen):
        np.testing.assert_allclose(means[key], seen.mean(), rtol=1e-5)
      np.testing.assert_allclose(deviations[key], seen.std(ddof=1) if len(seen) > 1 else 1, rtol=1e-4)
    assert means[3] == 0 and deviations[3] == 1


def test_moments_forget():
  """With nothing kept they are those of the last batch; with half, later batches weigh more."""
  update, seen = jax.jit(running.moments_update), np.concatenate([REWARDS[0], REWARDS[1] + 10])
  keys = np.zeros(ROWS, np.int32)
  for keep in (0.0, 0.5):
    state = running.moments_init(NUM_KEYS)
    for batch in (seen[:ROWS], seen[ROWS:]):
      state = update(state, keys, batch, keep=keep)
    weights = np.repeat([keep, 1.0], ROWS)
    mean = np.average(seen, weights=weights)
    expected = weights.sum(), mean, (weights * (seen - mean) ** 2).sum()
    np.testing.assert_allclose([x[0] for x in state], expected, rtol=1e-4)


def test_moments_of_equal_rewards_have_no_scale_to_divide_by():
  update = jax.jit(UPDATES['moments'][1])
  state = running.moments_init(NUM_KEYS)
  for value in (0.1, np.float32(0.1) * 3 - np.float32(0.2)):  # the second is 0.1 but for its rounding
    state = update(state, np.zeros(ROWS, np.int32), np.full(ROWS, value, np.float32))
  np.testing.assert_array_equal(READ['moments_deviation'](state, ALL), 1)
  state = update(state, np.zeros(ROWS, np.int32), np.full(ROWS, 1e15, np.float32))
  deviations = READ['moments_deviation'](state, ALL)
  assert np.isfinite(deviations).all() and deviations[0] > 1e14


def test_the_beta_tracker_against_a_loop():
  update = lambda state, prompts, rewards, keep: running.beta_update(state, prompts, rewards, keep=keep)
  states = after(UPDATES['beta'][0](), update, KEYS, SUCCESSES, KEEP)
  successes, failures = np.ones(NUM_KEYS), np.ones(NUM_KEYS)
  for i in range(BATCHES):
    for key in set(KEYS[i]):
      rows = KEYS[i] == key
      successes[key] = KEEP[i][rows].min() * successes[key] + SUCCESSES[i][rows].sum()
      failures[key] = KEEP[i][rows].min() * failures[key] + (1 - SUCCESSES[i][rows]).sum()
    now = jax.tree.map(lambda x, i=i: x[i], states)
    np.testing.assert_allclose(now.successes, successes, rtol=1e-5)
    np.testing.assert_allclose(READ['beta_mean'](now, ALL), successes / (successes + failures), rtol=1e-5)
  assert READ['beta_mean'](now, ALL)[3] == 0.5


def test_the_beta_tracker_finds_the_rate_and_the_prior_is_worth_its_strength():
  state, mean = running.beta_init(2, value=0.25, strength=8.0), READ['beta_mean']
  assert mean(state, np.array([1, 0])).tolist() == [0.25, 0.25]
  update = jax.jit(functools.partial(running.beta_update, keep=1.0))
  state = update(state, np.zeros(8, np.int32), np.ones(8, np.float32))
  np.testing.assert_allclose(mean(state, np.array([0, 1])), [(2 + 8) / 16, 0.25], rtol=1e-6)
  for _ in range(50):
    state = update(state, np.zeros(8, np.int32), np.float32([1, 0, 0, 0, 1, 0, 0, 0]))
  assert mean(state, np.array([0, 1]))[0] == pytest.approx(0.25, abs=0.02)


def test_what_is_forgotten_makes_room():
  """After a change of the policy the tracker follows within about 1 / (1 - keep) samples, or not at all."""
  update, prompt = jax.jit(running.beta_update), np.zeros(1, np.int32)
  for keep, expected in ((0.5, 1.875 / (1.875 + 100 / 16)), (1.0, 4 / 104)):
    state = running.beta_init(1, value=0.0, strength=100.0)
    for _ in range(4):
      state = update(state, prompt, np.ones(1, np.float32), keep=keep)
    assert READ['beta_mean'](state, prompt)[0] == pytest.approx(expected)


def test_retention_halves_with_each_half_life_within_its_bounds():
  kept = running.retention(jnp.array([0.0, 0.1, 0.2, 5.0]), half_life=0.1, low=0.2, high=0.9)
  np.testing.assert_allclose(kept, [0.9, 0.5, 0.25, 0.2], rtol=1e-6)


@pytest.mark.parametrize('bad', [dict(value=1.5, strength=1.0), dict(value=0.5, strength=0.0)])
def test_a_prior_that_is_none(bad):
  with pytest.raises(ValueError, match='pass a rate in .0, 1. and a strength above 0'):
    running.beta_init(3, **bad)
