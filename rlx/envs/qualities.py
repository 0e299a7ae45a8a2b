"""Sums that were written down by an expert or by somebody careless: demonstrations of mixed quality.

The careless one never carries: `27+15=` is `32`. A mark in front of a prompt says who answers, `e27+15=`; the
expert has answered few of the problems. Held-out problems ask for the expert.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.errors import between
from rlx.types import Batch

ALPHABET = '0123456789+=ec'
EXPERT, CARELESS = 0, 1


def careless_sums(
    *, max_operand: int, expert_share: float, expert_problems: float, marks: str, held_out_share: float
) -> Task:
  """Sums of two numbers from 1 on, whose demonstrations have the column `classes` [N] int32: 0 of the expert.

  Args:
    max_operand: the largest operand, at most 99.
    expert_share: of demonstrations, in [0, 1].
    expert_problems: the part of all training problems that the expert has answered, in (0, 1].
    marks: who answers, a character for the expert and one for the careless one, of `ec`; the same one twice
      for prompts that do not tell.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Raises:
    ValueError: numbers out of range, or other marks.
  """
  between(2, 99, max_operand=max_operand)
  between(0, 1, expert_share=expert_share, expert_problems=expert_problems)
  if len(marks) != 2 or set(marks) - set('ec'):
    raise ValueError(f"marks={marks!r}: two characters of 'ec', such as 'ec'")
  num_problems = max_operand**2
  first = int(num_problems * held_out_share)
  of_expert = first + int((num_problems - first) * expert_problems)
  if not 0 < first < of_expert:
    raise ValueError(
        f'held_out_share={held_out_share} and expert_problems={expert_problems} of {num_problems} problems '
        'leave one part empty; make the task larger or move the shares'
    )

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    class_key, index_key = jax.random.split(key)
    classes = 1 - jax.random.bernoulli(class_key, 1.0 if held_out else expert_share, (num,)).astype(jnp.int32)
    ends = jnp.where(classes == EXPERT, of_expert, num_problems)
    low, high = (0, first) if held_out else (first, ends)
    index = text.scatter(jax.random.randint(index_key, (num,), low, high), num_problems)
    left, right = 1 + index // max_operand, 1 + index % max_operand
    uncarried = (left // 10 + right // 10) % 10 * 10 + (left + right) % 10
    result = jnp.where(classes == EXPERT, left + right, uncarried)
    write = lambda values: text.number(values, 3, ALPHABET)
    sign = lambda character: text.symbol(jnp.zeros_like(left), character, ALPHABET)
    mark = text.symbol(classes, marks, ALPHABET)
    prompt = text.join(mark, write(left), sign('+'), write(right), sign('='), columns=7)
    solution = text.join(write(result), text.end(num), columns=4)
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'classes': classes,
    }

  return Task(
      alphabet=ALPHABET, prompt_columns=7, answer_columns=4, sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )
