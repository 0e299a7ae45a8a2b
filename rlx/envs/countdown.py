"""Numbers to combine into a target: `2,3,7:17=` -> `2*7+3`. Most problems have several right answers.

An answer uses every number exactly once, with + - * and the usual precedence, and without parentheses or
signs. It is checked for what it is worth, not compared with a solution: `verify` reads a completion with a
small machine, one character a step.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

OPERATORS = '+-*'
ALPHABET = '0123456789' + OPERATORS + ',:='
TARGET_LIMIT = 1000  # targets are below it; the sum of the numbers, at most 6 * 99, always is

_PLUS, _MINUS, _TIMES = range(3)
_NUM_CANDIDATES = 8
# Products saturate here. No right answer is lost: only four factors or more get there, and the other
# numbers, two at most, cannot bring the value back below the limit: 10**6 - 99**2 > TARGET_LIMIT.
_PRODUCT_LIMIT = 10**6


def countdown(*, num_numbers: int, max_number: int, held_out_share: float) -> Task:
  """Problems `a,b,...:target=` with 1 <= a <= b <= ... <= max_number and 0 <= target < TARGET_LIMIT.

  The split is over multisets of numbers: those of a held-out problem are never trained on, in any order
  or with any target. Multisets are drawn uniformly. The target is the value of a random expression; one
  that is negative or too large is drawn again, and the eighth is the plain sum.

  Args:
    num_numbers: the difficulty.
    max_number: the largest number that may occur.
    held_out_share: in (0, 1), the part of all multisets that is never trained on.
  Returns:
    The task. Its problems also have `numbers` [N, num_numbers] and `targets` [N], both int32.
  Raises:
    ValueError: `num_numbers` outside 2..6, or `max_number` outside 2..99.
  """
  if not 2 <= num_numbers <= 6:
    raise ValueError(f'num_numbers={num_numbers} is not in 2..6')
  if not 2 <= max_number <= 99:
    raise ValueError(f'max_number={max_number} is not in 2..99')
  num_digits = len(str(max_number))
  target_digits = len(str(min(max_number**num_numbers, TARGET_LIMIT - 1)))
  answer_columns = num_numbers * (num_digits + 1)
  prompt_columns = answer_columns + target_digits + 1

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    numbers_key, expression_key = jax.random.split(key)
    index = text.draw_indices(
        numbers_key, num, num_problems=math.comb(max_number + num_numbers - 1, num_numbers),
        held_out=held_out, held_out_share=held_out_share,
    )
    numbers = multiset(index, num_numbers, max_number)
    terms, operators, targets = _draw_expressions(expression_key, numbers)
    separators = jnp.zeros_like(numbers).at[:, -1].set(1)
    goal = text.number(targets, target_digits, ALPHABET)
    equals = text.symbol(jnp.zeros_like(targets), '=', ALPHABET)
    prompt = text.join(
        *_alternate(numbers, num_digits, separators, ',:'), goal, equals, columns=prompt_columns
    )
    expression = _alternate(terms, num_digits, operators[:, 1:], OPERATORS)
    solution = text.join(*expression, text.end(num), columns=answer_columns)
    return {
        'prompts': prompt.tokens,
        'prompt_lengths': prompt.lengths,
        'solutions': solution.tokens,
        'numbers': numbers,
        'targets': targets,
    }

  return Task(
      alphabet=ALPHABET,
      prompt_columns=prompt_columns,
      answer_columns=answer_columns,
      sample=sample,
      verify=verify,
  )


def verify(problems: Batch, completions: jax.Array) -> jax.Array:
  """[N] float32: 1 where a completion is worth its target and uses exactly its numbers.

  Numbers are written as in the prompt, without leading zeros; the end token is part of the answer.

  Args:
    problems: `numbers` [N, K] and `targets` [N].
    completions: [N, C] tokens.
  """
  return jax.vmap(_solves)(problems['numbers'], problems['targets'], completions).astype(jnp.float32)


@functools.partial(jax.jit, inline=True, static_argnames=('num_numbers', 'max_number'))
def multiset(index: jax.Array, num_numbers: int, max_number: int) -> jax.Array:
  """[N, num_numbers] int32, ascending in 1..max_number: one multiset for each index [N].

  In the combinatorial number system, index = Σ_k C(c_k, k) for exactly one c_1 < c_2 < ...; the numbers
  are c_k - k + 2, where subtracting k turns distinct numbers into repeatable ones.
  """
  columns = []
  for k in range(num_numbers, 0, -1):
    table = np.array([math.comb(c, k) for c in range(max_number + num_numbers - 1)], np.int32)
    c = jnp.sum(table[None] <= index[:, None], axis=1) - 1
    index = index - jnp.asarray(table)[c]
    columns.append(c - k + 2)
  return jnp.stack(columns[::-1], axis=1)


def _alternate(numbers, num_digits, symbols, choices):
  """Pieces: a number, a symbol, a number, ...; the last symbol may be missing."""
  for i in range(numbers.shape[1]):
    yield text.number(numbers[:, i], num_digits, ALPHABET)
    if i < symbols.shape[1]:
      yield text.symbol(symbols[:, i], choices, ALPHABET)


def _draw_expressions(key, numbers):
  """Terms [N, K], the operator before each of them [N, K] and the value [N], which is a legal target."""
  order_key, operator_key = jax.random.split(key)
  shape = (numbers.shape[0], _NUM_CANDIDATES, numbers.shape[1])
  order = jnp.argsort(jax.random.uniform(order_key, shape), axis=-1)
  terms = jnp.take_along_axis(jnp.broadcast_to(numbers[:, None], shape), order, axis=-1)
  operators = jax.random.randint(operator_key, shape, 0, len(OPERATORS))
  operators = operators.at[:, :, 0].set(_PLUS).at[:, -1].set(_PLUS)  # the last candidate is always legal
  total = product = jnp.zeros(shape[:2], jnp.int32)
  for i in range(shape[-1]):
    total, product = _append(total, product, operators[..., i], terms[..., i])
  values = total + product
  first = jnp.argmax((values >= 0) & (values < TARGET_LIMIT), axis=1)
  pick = lambda candidates: candidates[jnp.arange(shape[0]), first]
  return pick(terms), pick(operators), pick(values)


def _append(total, product, operator, number):
  """The value so far is total + product, where only the product can still grow."""
  times = operator == _TIMES
  longer = jnp.clip(product * number, -_PRODUCT_LIMIT, _PRODUCT_LIMIT)
  fresh = jnp.where(operator == _MINUS, -number, number)
  return jnp.where(times, total, total + product), jnp.where(times, longer, fresh)


class _Reader(NamedTuple):
  """What the machine knows in front of a character. Scalars, but for `unused` [K]."""

  total: jax.Array
  product: jax.Array
  operator: jax.Array  # in front of the number that is being read
  number: jax.Array  # 0 before its first digit
  unused: jax.Array  # bool, which of the given numbers are still to be used
  legal: jax.Array
  ended: jax.Array


def _solves(numbers, target, completion):
  """[] bool, for the numbers [K] and the completion [C] of one problem."""
  zero, no = jnp.zeros((), jnp.int32), jnp.zeros((), bool)
  start = _Reader(
      total=zero, product=zero, operator=zero + _PLUS, number=zero, unused=numbers > 0, legal=~no, ended=no
  )
  step = lambda reader, token: (_read(reader, token, numbers), None)
  reader, _ = jax.lax.scan(step, start, completion)
  worth = reader.total + reader.product
  return reader.ended & reader.legal & ~jnp.any(reader.unused) & (worth == target)


def _read(reader, token, numbers):
  """One character. An operator or the end closes a number, which must be a given one not used yet."""
  digit, operator = (token - text.characters(c, ALPHABET)[0] for c in '0+')
  is_digit = (digit >= 0) & (digit < 10)
  is_end = token == text.EOS_ID
  closes = (operator >= 0) & (operator < len(OPERATORS)) | is_end
  fits = reader.unused & (numbers == reader.number)  # never for 0, so an empty number is illegal
  used = fits & (jnp.cumsum(fits) == 1)
  total, product = _append(reader.total, reader.product, reader.operator, reader.number)
  digits = jnp.minimum(reader.number, 100) * 10 + digit  # three digits fit nothing, however many follow
  closed = reader._replace(
      total=total, product=product, operator=operator, number=jnp.zeros_like(token),
      unused=reader.unused & ~used, legal=reader.legal & jnp.any(used), ended=is_end,
  )
  extended = reader._replace(number=digits, legal=reader.legal & is_digit & (digits > 0))
  choose = lambda condition: lambda yes, no: jnp.where(condition, yes, no)
  return jax.tree.map(choose(reader.ended), reader, jax.tree.map(choose(closes), closed, extended))
