"""Galactic (S017): simulator, policy and learner in one program; it learns what a loop in Python learns.

Source: https://arxiv.org/abs/2306.07552. How much faster it is: `rlx.experiments.benchmarks.python_loop`.
"""

import jax
import numpy as np
import pytest

from rlx.experiments.benchmarks.python_loop import make


@pytest.mark.slow
def test_one_program_returns_what_the_loop_returns():
  program, loop, start = make(num_envs=4, num_steps=64, train_steps=3)
  (state, metrics), (expected, by_loop) = program(start()), loop(start())
  returns = metrics['episode/return']
  assert returns.shape == (3,) and returns.min() > 5  # episodes have ended
  np.testing.assert_allclose(returns, by_loop['episode/return'], rtol=1e-6)
  for one, other in zip(jax.tree.leaves(state.params), jax.tree.leaves(expected.params), strict=True):
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)
