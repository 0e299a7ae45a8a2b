"""Propose and verify in one pass: `31=` -> `2~4$`, a digit, a doubt, another digit, and the end.

The digit is a proposal: the sum of the prompt's digits, modulo a number. What follows it is the verdict of
the same model on it: `~` says that it is wrong, and to try again; the end token says that it is right, and
there the row ends. So two roles alternate in one ordinary completion, told by the tokens themselves, and
generation stops where verification passes.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

AGAIN = '~'
PROPOSER, VERIFIER = 0, 1  # roles


def propose(
    *, modulus: int, length: int, proposals: int, wrong_share: float, held_out_share: float
) -> Task:
  """Sums of `length` digits modulo a number, by trial and verdict.

  Solutions are synthetic pairs: a right proposal with the verdict that it is right, or a wrong one, the
  verdict that it is wrong, and then the right one.

  Args:
    modulus: sums are taken modulo this, and digits are below it; in 3..10.
    length: digits of a prompt, in 1..8; the difficulty.
    proposals: the most that a completion has room for, at least 2.
    wrong_share: in [0, 1], of solutions that begin with a wrong proposal.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Returns:
    The task. `verify` asks for proposals with doubts between them, of which the last is right, and the end
    token. Problems have a column `answers` [N, 1], tokens.
  Raises:
    ValueError: an argument out of its range.
  Source: the form is that of SPOC, https://arxiv.org/abs/2506.06923.
  """
  if not 3 <= modulus <= 10 or not 1 <= length <= 8 or proposals < 2 or not 0 <= wrong_share <= 1:
    raise ValueError(
        f'modulus={modulus}, length={length}, proposals={proposals}, wrong_share={wrong_share}: need '
        '3 <= modulus <= 10, 1 <= length <= 8, proposals >= 2 and 0 <= wrong_share <= 1'
    )
  alphabet = AGAIN + '=' + '0123456789'[:modulus]
  digits, again = text.characters('0123456789'[:modulus], alphabet), alphabet.index(AGAIN) + 2
  columns = 2 * proposals

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, errs_key, shift_key = jax.random.split(key, 3)
    index = text.draw_indices(
        index_key, num, num_problems=modulus**length, held_out=held_out, held_out_share=held_out_share
    )
    powers = jnp.array([modulus**i for i in reversed(range(length))], jnp.int32)
    terms = index[:, None] // powers[None] % modulus
    total = terms.sum(axis=1) % modulus
    errs = jax.random.bernoulli(errs_key, wrong_share, (num,))
    wrong = (total + jax.random.randint(shift_key, (num,), 1, modulus)) % modulus
    full = lambda x: jnp.full(num, x, jnp.int32)
    prompt = text.join(
        text.Piece(digits[terms], full(length)), text.symbol(full(0), '=', alphabet), columns=length + 1
    )
    digit = lambda x: text.Piece(digits[x][:, None], full(1))
    solution = text.join(
        text.when(errs, digit(wrong)), text.when(errs, text.symbol(full(0), AGAIN, alphabet)), digit(total),
        text.end(num), columns=columns,
    )
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'answers': digits[total][:, None],
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    completions = jnp.pad(completions, ((0, 0), (0, 1)))
    places = jnp.arange(completions.shape[1])[None]
    is_end = completions == text.EOS_ID
    end = jnp.where(is_end.any(axis=1), jnp.argmax(is_end, axis=1), 0)[:, None]
    in_turn = jnp.where(places % 2 == 0, jnp.isin(completions, digits), completions == again)
    last = jnp.take_along_axis(completions, jnp.maximum(end - 1, 0), axis=1) == problems['answers']
    fits = jnp.all(in_turn | (places >= end), axis=1) & (end[:, 0] % 2 == 1)
    return (fits & last[:, 0]).astype(jnp.float32)

  return Task(
      alphabet=alphabet, prompt_columns=length + 1, answer_columns=columns, sample=sample, verify=verify
  )
