"""Returns of another policy's steps, against sums written as loops, and where they are each other."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.advantages import off_policy, temporal

RNG = np.random.default_rng(0)
ROWS, STEPS, DISCOUNT = 4, 7, 0.9
REWARDS, TAKEN, NOW, NEXT = RNG.normal(size=(4, ROWS, STEPS)).astype(np.float32)
RATIOS = np.exp(RNG.normal(size=(ROWS, STEPS))).astype(np.float32)
BEST = RNG.random((ROWS, STEPS)) < 0.6
TERMINATED, TRUNCATED = np.zeros((2, ROWS, STEPS), bool)
TERMINATED[0, 2] = TRUNCATED[1, 4] = TERMINATED[2, 6] = TRUNCATED[2, 0] = True
ENDS = TERMINATED, TRUNCATED
HOW = dict(discount=DISCOUNT, lambda_=0.8)


def summed(taken, following, traces):
  """Munos et al., eq. 3, as the double sum that it is: discounted errors, each with the traces up to it."""
  found = np.zeros((ROWS, STEPS))
  for row in range(ROWS):
    for start in range(STEPS):
      total, weight = float(taken[row, start]), 1.0
      for t in range(start, STEPS):
        if t > start:
          weight *= DISCOUNT * traces[row, t]
        behind = 0.0 if TERMINATED[row, t] else float(following[row, t])
        total += weight * (REWARDS[row, t] + DISCOUNT * behind - taken[row, t])
        if TERMINATED[row, t] or TRUNCATED[row, t]:
          break
      found[row, start] = total
  return found


def close(found, expected):
  np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_retrace():
  found = jax.jit(functools.partial(off_policy.retrace, **HOW))(REWARDS, TAKEN, NEXT, *ENDS, RATIOS)
  close(found, summed(TAKEN, NEXT, 0.8 * np.minimum(RATIOS, 1)))


def test_q_lambda():
  found = jax.jit(functools.partial(off_policy.q_lambda, **HOW))(REWARDS, TAKEN, NEXT, *ENDS)
  close(found, summed(TAKEN, NEXT, np.full((ROWS, STEPS), 0.8)))


def test_watkins():
  found = jax.jit(functools.partial(off_policy.watkins_q_lambda, **HOW))(REWARDS, TAKEN, NEXT, *ENDS, BEST)
  close(found, summed(TAKEN, NEXT, 0.8 * BEST))


def test_peng_is_the_lambda_return_of_the_best():
  """Backwards: r + γ ((1 - λ) max Q + λ G of the next step)."""
  expected = np.zeros((ROWS, STEPS))
  for row in range(ROWS):
    later = None  # nothing is known behind the stretch but the value
    for t in reversed(range(STEPS)):
      behind = 0.0 if TERMINATED[row, t] else NEXT[row, t]
      if later is None or TERMINATED[row, t] or TRUNCATED[row, t]:
        expected[row, t] = REWARDS[row, t] + DISCOUNT * behind
      else:
        # `NEXT` and `NOW` are of the same state in what a rollout yields; here they differ, and GAE takes
        # both.
        expected[row, t] = REWARDS[row, t] + DISCOUNT * (behind + 0.8 * (later - NOW[row, t + 1]))
      later = expected[row, t]
  found = jax.jit(functools.partial(off_policy.peng_q_lambda, **HOW))(REWARDS, NOW, NEXT, *ENDS)
  close(found, expected)


def test_upgo():
  """AlphaStar: along what was done where the next step is at least as good as expected, else the value."""
  expected = np.zeros((ROWS, STEPS))
  values = NOW
  following = NEXT.copy()
  following[:, :-1] = np.where((TERMINATED | TRUNCATED)[:, :-1], NEXT[:, :-1], values[:, 1:])
  for row in range(ROWS):
    for t in reversed(range(STEPS)):
      behind = 0.0 if TERMINATED[row, t] else following[row, t]
      if t + 1 < STEPS and not (TERMINATED[row, t] or TRUNCATED[row, t]):
        after = 0.0 if TERMINATED[row, t + 1] else following[row, t + 1]
        if REWARDS[row, t + 1] + DISCOUNT * after >= values[row, t + 1]:
          behind = expected[row, t + 1]
      expected[row, t] = REWARDS[row, t] + DISCOUNT * behind
  found = jax.jit(functools.partial(off_policy.upgo, discount=DISCOUNT))(REWARDS, values, following, *ENDS)
  close(found, expected)
  assert (np.abs(expected - REWARDS - DISCOUNT * np.where(TERMINATED, 0, following)) > 1e-3).any()


def test_where_they_are_each_other():
  retrace = jax.jit(off_policy.retrace)
  of = functools.partial(retrace, REWARDS, TAKEN, NEXT, *ENDS, discount=DISCOUNT)
  close(of(10 * np.ones_like(RATIOS), lambda_=0.8), off_policy.q_lambda(REWARDS, TAKEN, NEXT, *ENDS, **HOW))
  one_step = REWARDS + DISCOUNT * np.where(TERMINATED, 0, NEXT)
  close(of(np.zeros_like(RATIOS), lambda_=0.8), one_step)
  # For a greedy policy the ratio is 1 / μ or 0: Retrace is Watkins'.
  close(
      of(np.where(BEST, 1 / 0.7, 0).astype(np.float32), lambda_=0.8),
      off_policy.watkins_q_lambda(REWARDS, TAKEN, NEXT, *ENDS, BEST, **HOW),
  )
  # Where every action is the best one, Q of it is max Q, and Watkins' is Peng's.
  close(
      off_policy.watkins_q_lambda(REWARDS, NOW, NEXT, *ENDS, np.ones_like(BEST), **HOW),
      off_policy.peng_q_lambda(REWARDS, NOW, NEXT, *ENDS, **HOW),
  )


@pytest.mark.parametrize('clip_pg', [0.5, 1.0, 3.0])
def test_the_policy_gradient_of_vtrace_has_a_clip_of_its_own(clip_pg):
  """Targets do not move; advantages are those of one clip, times the ratio of the two weights."""
  how = dict(lambda_=0.9, clip_rho=1.0, clip_c=1.0)
  rows = REWARDS, NOW, NEXT, *ENDS, RATIOS
  plain = temporal.vtrace_episodes(*rows, discount=DISCOUNT, **how)
  own = temporal.vtrace_episodes(*rows, discount=DISCOUNT, **how, clip_pg=clip_pg)
  close(own.targets, plain.targets)
  close(own.advantages, plain.advantages * np.minimum(RATIOS, clip_pg) / np.minimum(RATIOS, 1.0))
  mask = jnp.ones((ROWS, STEPS), bool)
  tokens = temporal.vtrace_tokens(REWARDS, NOW, mask, RATIOS, discount=DISCOUNT, **how, clip_pg=clip_pg)
  single = temporal.vtrace_tokens(REWARDS, NOW, mask, RATIOS, discount=DISCOUNT, **how)
  close(tokens.advantages, single.advantages * np.minimum(RATIOS, clip_pg) / np.minimum(RATIOS, 1.0))
  assert clip_pg == 1 or not np.allclose(own.advantages, plain.advantages)
