"""Codes that are learnt by heart: `k3b=` -> `CAF`. What one teaches is of no use to the others.

A key is a letter and a digit; its code is drawn once and for all, and nothing says which. What stands behind
the key distracts, and may be one that the key was never trained with. Where problems are sums, samples that
are spent on easy ones teach the hard ones too; here they do not, as is nearly so with problems of very
different difficulty. Keys have levels, and `half_known` demonstrates those of a level as often rightly as it
is told to: so after SFT a key is right about as often, and how hard every problem is, is known.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

KEYS, DIGITS, CODES, MARKS = 'klmnopqrstuvwxyz', '0123456789', 'ABCDEFGH', 'abcdefghij'


def codebook(
    *, num_keys: int, num_levels: int, used: tuple[int, ...], marks: int, choices: int, length: int,
    held_out_share: float,
) -> Task:
  """Prompts of a key, a mark and `=`; answers of `length` capitals.

  Args:
    num_keys: in 1..160; key number k is of level k modulo `num_levels`.
    num_levels: in 1..num_keys.
    used: levels that problems are of. Tasks that differ in this alone have the same tokens and codes.
    marks: in 1..10; how many there are, each as likely behind a key.
    choices: in 2..8, capitals that codes are made of.
    length: of a code, at least 1; one in choices**length guesses is right.
    held_out_share: in (0, 1), the part of the keys with their marks that is never trained on.
  Returns:
    The task. `verify` asks for the code and the end token. Problems have a column `level` [N].
  Raises:
    ValueError: an argument out of its range.
  """
  _check(num_keys=num_keys, num_levels=num_levels, used=used, marks=marks, choices=choices, length=length)
  alphabet = KEYS + DIGITS + CODES[:choices] + MARKS[:marks] + '='
  letters, digits, capitals, behind = (
      text.characters(x, alphabet) for x in (KEYS, DIGITS, CODES[:choices], MARKS[:marks])
  )
  book = capitals[jax.random.randint(jax.random.key(0), (num_keys, length), 0, choices)]
  keys_used = jnp.array([k for k in range(num_keys) if k % num_levels in used], jnp.int32)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index = text.draw_indices(
        key, num, num_problems=len(keys_used) * marks, held_out=held_out, held_out_share=held_out_share
    )
    number = keys_used[index // marks]
    columns = (letters[number // len(DIGITS)], digits[number % len(DIGITS)], behind[index % marks])
    full = lambda count: jnp.full(num, count, jnp.int32)
    prompt = text.join(
        text.Piece(jnp.stack(columns, axis=1), full(len(columns))), text.symbol(full(0), '=', alphabet),
        columns=len(columns) + 1,
    )
    solution = text.join(text.Piece(book[number], full(length)), text.end(num), columns=length + 1)
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'level': number % num_levels,
    }

  return Task(
      alphabet=alphabet, prompt_columns=4, answer_columns=length + 1, sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )


def half_known(
    *, num_keys: int, num_levels: int, used: tuple[int, ...], marks: int, choices: int, length: int,
    held_out_share: float, right_shares: tuple[float, ...],
) -> Task:
  """`codebook` whose solutions are right for a share of each level's problems, and else any code.

  Args:
    num_keys, num_levels, used, marks, choices, length, held_out_share: as for `codebook`.
    right_shares: in [0, 1], one for each level.
  Returns:
    The task. Its `verify` asks for the code that the solution holds: judge policies by `codebook`.
  Raises:
    ValueError: as `codebook`, or shares that are not as many as levels or out of their range.
  """
  if len(right_shares) != num_levels or not all(0 <= x <= 1 for x in right_shares):
    raise ValueError(f'right_shares={right_shares}: need num_levels={num_levels} of them, each in [0, 1]')
  task = codebook(
      num_keys=num_keys, num_levels=num_levels, used=used, marks=marks, choices=choices, length=length,
      held_out_share=held_out_share,
  )
  capitals = text.characters(CODES[:choices], task.alphabet)
  shares = jnp.array(right_shares)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    key, any_key, right_key = jax.random.split(key, 3)
    problems = task.sample(key, num, held_out)
    right = jax.random.bernoulli(right_key, shares[problems['level']])[:, None]
    said = problems['solutions']
    taught = jnp.where(right, said[:, :length], jax.random.choice(any_key, capitals, (num, length)))
    return {**problems, 'solutions': said.at[:, :length].set(taught)}

  return dataclasses.replace(task, sample=sample)


def _check(*, num_keys, num_levels, used, marks, choices, length) -> None:
  if not 1 <= num_levels <= num_keys <= len(KEYS) * len(DIGITS):
    raise ValueError(f'num_keys={num_keys}, num_levels={num_levels}: need 1 <= levels <= keys <= 160')
  if not used or not set(used) <= set(range(num_levels)):
    raise ValueError(f'used={used}: need levels among 0..{num_levels - 1}')
  if not 1 <= marks <= len(MARKS) or not 2 <= choices <= len(CODES) or length < 1:
    raise ValueError(
        f'marks={marks}, choices={choices}, length={length}: need 1 <= marks <= 10, 2 <= choices <= 8 and '
        'length >= 1'
    )
