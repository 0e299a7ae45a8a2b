"""One token decides: `2071=` -> `ca2bbd`, where the third character is the prompt's first digit.

What stands around the decision is arbitrary filler. So of all tokens of a completion exactly one earns the
reward, and its place is known: a check for credit assignment, and for what looks for the place to branch.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

DIGITS, LETTERS = '0123456789', 'abcdefghij'


def fork(
    *, choices: int, length: int, before: int, after: int, letters: int, held_out_share: float
) -> Task:
  """Prompts of `length` digits and `=`; answers of `before` letters, the first digit, and more letters.

  Solutions have random letters, and a random number of them behind the digit, up to `after`.

  Args:
    choices: how many digits there are, and what the decision is among; the difficulty.
    length: digits of a prompt; all but the first distract.
    before: letters in front of the decision, which is action number `before`, counted from 0.
    after: the most letters behind it.
    letters: how many letters there are, at most one more than `choices`: so that a random change of one
      character is more often wrong than right.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The task. `verify` asks for the right digit in its place, letters elsewhere, and the end token.
  Raises:
    ValueError: an argument out of its range.
  """
  if not 2 <= choices <= len(DIGITS) or not 1 <= letters <= min(choices + 1, len(LETTERS)):
    raise ValueError(
        f'choices={choices}, letters={letters}: need 2 <= choices <= 10 and 1 <= letters <= choices + 1, '
        'at most 10'
    )
  if not 2 <= length <= 8 or before < 0 or after < 0:
    raise ValueError(f'length={length}, before={before}, after={after}: need 2 <= length <= 8, others >= 0')
  alphabet = DIGITS[:choices] + LETTERS[:letters] + '='
  answer_columns = before + after + 2
  digits, fillers = (text.characters(x, alphabet) for x in (DIGITS[:choices], LETTERS[:letters]))

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, letters_key, count_key = jax.random.split(key, 3)
    index = text.draw_indices(
        index_key, num, num_problems=choices**length, held_out=held_out, held_out_share=held_out_share
    )
    powers = jnp.array([choices**i for i in reversed(range(length))], jnp.int32)
    asked = digits[index[:, None] // powers[None] % choices]
    full = lambda count: jnp.full(num, count, jnp.int32)
    filler = fillers[jax.random.randint(letters_key, (num, before + after), 0, letters)]
    prompt = text.join(
        text.Piece(asked, full(length)), text.symbol(full(0), '=', alphabet), columns=length + 1
    )
    solution = text.join(
        text.Piece(filler[:, :before], full(before)),
        text.Piece(asked[:, :1], full(1)),
        text.Piece(filler[:, before:], jax.random.randint(count_key, (num,), 0, after + 1)),
        text.end(num),
        columns=answer_columns,
    )
    return {'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens}

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    missing = max(answer_columns - completions.shape[1], 0)
    completions = jnp.pad(completions, ((0, 0), (0, missing)))[:, :answer_columns]
    columns = jnp.arange(answer_columns)[None]
    is_end = completions == text.EOS_ID
    end = jnp.where(is_end.any(axis=1), jnp.argmax(is_end, axis=1), 0)[:, None]
    is_letter = jnp.isin(completions, fillers)
    decided = completions == problems['solutions'][:, before : before + 1]  # a batch has no prompts
    fits = jnp.where(columns == before, decided, is_letter) | (columns >= end)
    return (jnp.all(fits, axis=1) & (end[:, 0] > before)).astype(jnp.float32)

  return Task(
      alphabet=alphabet,
      prompt_columns=length + 1,
      answer_columns=answer_columns,
      sample=sample,
      verify=verify,
  )


def undecided(
    *, choices: int, length: int, before: int, after: int, letters: int, held_out_share: float,
    right_share: float,
) -> Task:
  """`fork` whose solutions decide at random, to teach the form of an answer and leave the decision to RL.

  Args:
    choices, length, before, after, letters, held_out_share: as for `fork`.
    right_share: of the solutions that are right on purpose, in [0, 1); the others hold any digit, and one in
      `choices` of them is right by chance.
  Returns:
    The task. Its `verify` asks for the digit that the solution holds: judge policies by `fork`.
  Raises:
    ValueError: as `fork`, or a share out of its range.
  """
  if not 0 <= right_share < 1:
    raise ValueError(f'right_share={right_share}: need 0 <= right_share < 1; with 1 it is `fork`')
  task = fork(
      choices=choices, length=length, before=before, after=after, letters=letters,
      held_out_share=held_out_share,
  )
  digits = text.characters(DIGITS[:choices], task.alphabet)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    key, digit_key, right_key = jax.random.split(key, 3)
    problems = task.sample(key, num, held_out)
    right = jax.random.bernoulli(right_key, right_share, (num,))
    taught = jnp.where(right, problems['solutions'][:, before], jax.random.choice(digit_key, digits, (num,)))
    return {**problems, 'solutions': problems['solutions'].at[:, before].set(taught)}

  return dataclasses.replace(task, sample=sample)
