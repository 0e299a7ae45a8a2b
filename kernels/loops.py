"""Loops whose length the data decide, and how often they run where nothing ends early."""

import contextlib

import jax

PREFIX = 'times_'


def times(number: int) -> contextlib.AbstractContextManager:
  """Around a `while_loop`: says in the compiled program how often it runs if no row ends early.

  The name stands in profiles too. `rlx/run/costs.py` reads it.

  Args:
    number: of times, at most or on average.
  """
  return jax.named_scope(f'{PREFIX}{number}')
