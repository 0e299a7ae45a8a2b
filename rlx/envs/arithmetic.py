"""Sums and differences of whole numbers: `37+48=` -> `85`."""

import jax

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

ALPHABET = '0123456789+-='


def arithmetic(*, min_operand: int, max_operand: int, operators: str, held_out_share: float) -> Task:
  """Problems `a o b=` with min_operand <= a, b <= max_operand; differences may be negative.

  Args:
    min_operand: the smallest operand, at least 0.
    max_operand: the difficulty; 9 is single digits, 99 two.
    operators: '+', '-' or '+-'.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The task. `verify` asks for the exact decimal answer and the end token.
  Raises:
    ValueError: unknown or repeated operators, or operands outside 0..9999.
  """
  if not operators or set(operators) - set('+-') or len(set(operators)) < len(operators):
    raise ValueError(f"operators={operators!r}; choose from '+', '-' and '+-'")
  if not 0 <= min_operand < max_operand <= 9999:
    raise ValueError(f'min_operand={min_operand}, max_operand={max_operand}: need 0 <= min < max <= 9999')
  num_operands = max_operand - min_operand + 1
  num_digits = len(str(max_operand))
  prompt_columns, answer_columns = 2 * num_digits + 2, num_digits + 2

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index = text.draw_indices(
        key, num, num_problems=len(operators) * num_operands**2,
        held_out=held_out, held_out_share=held_out_share,
    )
    operator, operands = index // num_operands**2, index % num_operands**2
    left, right = min_operand + operands // num_operands, min_operand + operands % num_operands
    minus = operator == operators.find('-')
    result = jax.numpy.where(minus, left - right, left + right)
    write = lambda values: text.number(values, num_digits + 1, ALPHABET)
    zero = jax.numpy.zeros_like(operator)
    prompt = text.join(
        write(left), text.symbol(operator, operators, ALPHABET), write(right),
        text.symbol(zero, '=', ALPHABET), columns=prompt_columns,
    )
    sign = text.when(result < 0, text.symbol(zero, '-', ALPHABET))
    solution = text.join(sign, write(abs(result)), text.end(num), columns=answer_columns)
    return {'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens}

  return Task(
      alphabet=ALPHABET,
      prompt_columns=prompt_columns,
      answer_columns=answer_columns,
      sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )
