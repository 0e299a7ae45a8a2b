"""Digits to put in order: `31504=` -> `01345`."""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

DIGITS = '0123456789'
ALPHABET = DIGITS + '='


def sorting(*, length: int, held_out_share: float) -> Task:
  """Problems of `length` digits, repeats allowed, whose answer is the same digits in ascending order.

  Every string of digits is one problem. Strings that share their digits share their answer, so a held-out
  problem is new, its answer need not be.

  Args:
    length: the difficulty, in digits.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The task. `verify` asks for the exact answer and the end token.
  Raises:
    ValueError: a length outside 2..8.
  """
  if not 2 <= length <= 8:
    raise ValueError(f'length={length} is not in 2..8')

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index = text.draw_indices(
        key, num, num_problems=10**length, held_out=held_out, held_out_share=held_out_share
    )
    digits = text.decimal_digits(index, length)
    write = lambda row: text.Piece(text.characters(DIGITS, ALPHABET)[row], jnp.full(num, length))
    equals = text.symbol(jnp.zeros(num, jnp.int32), '=', ALPHABET)
    prompt = text.join(write(digits), equals, columns=length + 1)
    solution = text.join(write(jnp.sort(digits, axis=1)), text.end(num), columns=length + 1)
    return {'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens}

  return Task(
      alphabet=ALPHABET,
      prompt_columns=length + 1,
      answer_columns=length + 1,
      sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )
