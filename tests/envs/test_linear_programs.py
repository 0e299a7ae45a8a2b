"""Tiny linear programs: the solver is exact, and right answers by wrong steps are told from right ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from rlx.envs import linear_programs as lp
from rlx.envs.conformance import check_task

TASK = lp.linear_programs(coefficient=3, bound=6, held_out_share=0.2)
SAMPLE = jax.jit(TASK.sample, static_argnums=(1, 2))
# The best corner is (4, 3), which is worth 18; the other one (2, 5), 16.
PROGRAM = {'programs': jnp.array([[3, 2, 4, 5, 7]]), 'optimum': jnp.array([18])}


@pytest.mark.slow
def test_the_task_keeps_its_contract():
  check_task(TASK, num=200)


def test_the_solver_is_exact_and_two_corners_are_enough():
  problems = SAMPLE(jax.random.key(0), 64, False)
  programs = np.asarray(problems['programs'])
  best = lp.optima(programs)
  np.testing.assert_array_equal(problems['optimum'], best)
  corners = lp.corners_of(problems['programs'])
  np.testing.assert_array_equal(lp.values_of(problems['programs'], corners).max(axis=1), best)
  for (a, b, p, q, s), value in zip(programs[:12], best, strict=False):
    found = linprog([-a, -b], A_ub=[[1, 1]], b_ub=[s], bounds=[(0, p), (0, q)])
    np.testing.assert_allclose(-found.fun, value, rtol=1e-6)


def test_solutions_are_right_in_every_step():
  problems = SAMPLE(jax.random.key(1), 64, True)
  assert jax.jit(lp.steps_right)(problems, problems['solutions']).all()


def test_a_slip_is_counted_where_it_is_made_and_the_answer_may_be_right():
  graded = {
      '43:18,25:16#18': (1, [1, 1, 1, 1, 1]),
      '43:18,25:15#18': (1, [1, 1, 1, 0, 1]),  # the other corner's value
      '43:18,24:14#18': (1, [1, 0, 1, 1, 1]),  # the other corner, whose value is of what was said
      '43:17,25:16#18': (1, [1, 1, 0, 1, 0]),  # an answer out of nowhere
      '43:17,25:16#17': (0, [1, 1, 0, 1, 1]),
      '43:18,25:16,18': (0, [0, 0, 0, 0, 0]),  # another form
  }
  completions = jnp.array([[*TASK.encode(words), 1] for words in graded])
  problems = jax.tree.map(lambda x: jnp.repeat(x, len(graded), axis=0), PROGRAM)
  answers, steps = (list(x) for x in zip(*graded.values(), strict=True))
  np.testing.assert_array_equal(jax.jit(TASK.verify)(problems, completions), answers)
  np.testing.assert_array_equal(jax.jit(lp.steps_right)(problems, completions), np.array(steps, bool))
