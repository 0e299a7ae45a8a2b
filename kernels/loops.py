"""What a compiled program does not say of itself: how often a loop runs whose length the data decide, and
what a kernel computes. Names say it, which stand in profiles too; `rlx/run/costs.py` reads them.
"""

import contextlib

import jax

PREFIX = 'times_'
PRODUCTS = 'flops_'


def times(number: int) -> contextlib.AbstractContextManager:
  """Around a `while_loop`: says in the compiled program how often it runs if no row ends early.

  Args:
    number: of times, at most or on average.
  """
  return jax.named_scope(f'{PREFIX}{number}')


def products(flops: int) -> contextlib.AbstractContextManager:
  """Around a kernel: says in the compiled program what it computes if nothing is left out.

  Args:
    flops: of its matrix products, two a multiplication.
  """
  return jax.named_scope(f'{PRODUCTS}{flops}')
