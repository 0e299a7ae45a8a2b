"""Linear programs of two variables: `3x2y,4,5,7=` -> `43:18,25:16#18`, two corners in steps, then the most.

To be made as large as can be is a x + b y, with 0 <= x <= p, 0 <= y <= q and x + y <= s. Where a and b are
positive and s is between the larger bound and their sum, one of two corners is best, (p, s - p) and
(s - q, q); a solution names each with its value and ends in the larger value. The answer alone is verified,
by a solver that goes through all corners. Whoever gets the worse corner wrong may be right by wrong steps,
and `steps_right` says so.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import StepTask
from rlx.errors import between
from rlx.types import Batch

MARKS = 'xy,=:#'
_CORNER, _ANSWER = 6, 3  # tokens of `43:18` and the mark behind it; of `18` and the end token
_STEPS = 5  # two corners, what each is worth, and the answer


def linear_programs(*, coefficient: int, bound: int, held_out_share: float) -> StepTask:
  """Prompts of programs; answers are two corners with their values, and the optimum.

  Args:
    coefficient: the largest of a and b, in 1..9; the least is 1.
    bound: the largest of p and q, in 2..9; s is at most 9.
    held_out_share: in (0, 1), the part of all programs that is never trained on.
  Returns:
    The task. `verify` asks for a solution's form and for the optimum behind `#`, whatever the steps are.
    Problems have the columns `programs` [N, 5], a, b, p, q and s, and `optimum` [N].
  Raises:
    ValueError: an argument out of its range.
  """
  between(1, 9, coefficient=coefficient)
  between(2, 9, bound=bound)
  alphabet = MARKS + '0123456789'
  table = _programs(coefficient, bound)
  all_programs, all_optima = jnp.asarray(table), jnp.asarray(optima(table))
  digits = text.characters('0123456789', alphabet)
  marks = {mark: text.characters(mark, alphabet)[0] for mark in MARKS}

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index = text.draw_indices(
        key, num, num_problems=len(all_programs), held_out=held_out, held_out_share=held_out_share
    )
    programs = all_programs[index]
    mark = lambda name: jnp.full((num, 1), marks[name])
    said = [digits[programs[:, i : i + 1]] for i in range(5)]
    corners = corners_of(programs)
    values = values_of(programs, corners)
    of = [jnp.concatenate([corners[:, i], _two(values[:, i])], axis=1) for i in (0, 1)]
    spelled = lambda x: [digits[x[:, :2]], mark(':'), digits[x[:, 2:]]]
    solution = [*spelled(of[0]), mark(','), *spelled(of[1]), mark('#'), digits[_two(values.max(axis=1))]]
    asked = [x for pair in zip(said, [mark(m) for m in 'xy,,='], strict=True) for x in pair]
    return {
        'prompts': jnp.concatenate(asked, axis=1), 'prompt_lengths': jnp.full(num, 10),
        'solutions': jnp.concatenate([*solution, jnp.full((num, 1), text.EOS_ID)], axis=1).astype(jnp.int32),
        'programs': programs, 'optimum': all_optima[index],
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    said, well_formed = _read(completions)
    return (well_formed & (said[:, -1] == problems['optimum'])).astype(jnp.float32)

  return StepTask(
      alphabet=alphabet, prompt_columns=10, answer_columns=2 * _CORNER + _ANSWER, sample=sample,
      verify=verify, max_steps=_STEPS,
      count_steps=lambda completions: jnp.full(len(completions), _STEPS),
      grade_steps=steps_right, in_form=lambda problems, completions: _read(completions)[1],
  )


def corners_of(programs: jax.Array) -> jax.Array:
  """[N, 2, 2] int32 the corners (p, s - p) and (s - q, q) of programs [N, 5]."""
  p, q, s = programs[:, 2], programs[:, 3], programs[:, 4]
  return jnp.stack([jnp.stack([p, s - p], axis=1), jnp.stack([s - q, q], axis=1)], axis=1)


def values_of(programs: jax.Array, corners: jax.Array) -> jax.Array:
  """[N, 2] int32 what corners [N, 2, 2] are worth, a x + b y."""
  return jnp.sum(programs[:, None, :2] * corners, axis=2)


def steps_right(problems: Batch, completions: jax.Array) -> jax.Array:
  """[N, 5] bool, which steps of completions [N, C] are right; none where one has not a solution's form.

  The corners, each its own step; the value of each, of the corner as it was said; and the answer, of the
  values as they were said. So a slip is counted where it is made.
  """
  said, well_formed = _read(completions)
  corners = jnp.stack([said[:, 0:2], said[:, 3:5]], axis=1)
  values = jnp.stack([said[:, 2], said[:, 5]], axis=1)
  named = jnp.all(corners == corners_of(problems['programs']), axis=2)
  worth = values == values_of(problems['programs'], corners)
  larger = said[:, 6] == values.max(axis=1)
  return jnp.concatenate([named, worth, larger[:, None]], axis=1) & well_formed[:, None]


def optima(programs: np.ndarray) -> np.ndarray:
  """[N] the optimum of programs [N, 5]: the best of all points where two bounds meet and none is broken.

  Exact: lines are x, y and x + y at whole numbers, so that two of them meet in one.
  """
  a, b, p, q, s = programs.T
  zero = np.zeros_like(p)
  lines = [((1, 0), zero), ((0, 1), zero), ((1, 0), p), ((0, 1), q), ((1, 1), s)]
  best = np.full(len(programs), -1)
  for ((i, j), c), ((k, m), d) in itertools.combinations(lines, 2):
    determinant = i * m - j * k
    if determinant:
      x, y = (c * m - j * d) // determinant, (i * d - c * k) // determinant
      kept = (x >= 0) & (y >= 0) & (x <= p) & (y <= q) & (x + y <= s)
      best = np.where(kept, np.maximum(best, a * x + b * y), best)
  return best


def _programs(coefficient: int, bound: int) -> np.ndarray:
  """[P, 5] all programs a, b, p, q, s in which both corners are there, and apart."""
  sides, bounds = range(1, coefficient + 1), range(1, bound + 1)
  return np.array([
      (a, b, p, q, s)
      for a, b, p, q in itertools.product(sides, sides, bounds, bounds)
      for s in range(max(p, q), min(p + q, 10))
  ], np.int32)


def _two(values: jax.Array) -> jax.Array:
  """[N, 2] the two digits of values [N] below 100."""
  return text.decimal_digits(values, 2)


def _read(completions: jax.Array) -> tuple[jax.Array, jax.Array]:
  """[N, 7] x, y and value of both corners and the answer, as completions [N, C] say; whether they do."""
  columns = 2 * _CORNER + _ANSWER
  said = jnp.pad(completions, ((0, 0), (0, columns)))[:, :columns]
  code = said - 2 - len(MARKS)  # the digit, where it is one
  form = '00:00,00:00#00'
  at = np.array([form[i] == '0' for i in range(len(form))])
  wanted = jnp.array([0 if x == '0' else MARKS.index(x) + 2 for x in form])
  is_digit = (code >= 0) & (code <= 9)
  fits = jnp.where(at[None], is_digit[:, :-1], said[:, :-1] == wanted[None])
  digit = lambda i: code[:, i]
  number = lambda i: 10 * digit(i) + digit(i + 1)
  read = [digit(0), digit(1), number(3), digit(6), digit(7), number(9), number(12)]
  return jnp.stack(read, axis=1), jnp.all(fits, axis=1) & (said[:, -1] == text.EOS_ID)
