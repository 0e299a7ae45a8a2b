"""What a judge is asked of solutions, in five formats: sums modulo M, whose running sums may have slips.

    p342=302,306?  ->  302,302#1    which of two solutions ends right
    s342=306?      ->  302#3        the first wrong step; 0 for none
    r342=306/2?    ->  #0           whether it ends right, beside the right answer
    f342=306?      ->  302#0        whether it ends right, without
    g342=306?      ->  302#2        how many steps are right

(modulo 7). A judge that thinks says what each step should have come to from the one before it, as that was
said, which is one addition each, and then its verdict. The verdict alone is asked for: thoughts may be wrong,
or left out.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Piece, Task
from rlx.envs.weighing import places
from rlx.types import Batch

FORMATS = {'pairwise': 'p', 'step': 's', 'referenced': 'r', 'free': 'f', 'rating': 'g'}
_MARKS = '=,/?#'


@dataclasses.dataclass(frozen=True, kw_only=True)
class JudgedTask(Task):
  """A task of judging.

  Attributes:
    solve: `(key, num, held_out, candidates) -> problems` with `operands` [num, L], `solutions`
      [num, candidates, L], as they are drawn, and `ends_right` [num, candidates].
    ask_free: `(operands [N, L], solutions [N, L]) -> prompts, lengths` in the format `free`.
  """

  solve: Callable[[jax.Array, int, bool, int], Batch]
  ask_free: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def evaluating(*, modulus: int, length: int, held_out_share: float) -> JudgedTask:
  """Questions in all five formats, each as often.

  Half of the solutions have no slip; in the others one step at least does not add up, each with the same
  chance, and the steps behind it go on from there. Of a pair, one ends right.

  Args:
    modulus: M, in 2..10; more than `length`, so that a count of steps is a digit.
    length: L, digits that are added, at least 2.
    held_out_share: in (0, 1), the part of all sums that is never trained on.
  Returns:
    The task. Problems have columns `formats` [N] in 0..4, in the order of `FORMATS`, and `verdicts` [N],
    tokens.
  Raises:
    ValueError: an argument out of its range.
  """
  if not 2 <= length < modulus <= 10:
    raise ValueError(f'modulus={modulus}, length={length}: need 2 <= length < modulus <= 10')
  alphabet = _MARKS + '0123456789'[:modulus] + ''.join(FORMATS.values())
  digits = text.characters('0123456789'[:modulus], alphabet)
  prompt_columns, answer_columns = 3 * length + 4, 2 * length + 4

  def solve(key: jax.Array, num: int, held_out: bool, candidates: int) -> Batch:
    index_key, *keys = jax.random.split(key, 5)
    index = text.draw_indices(
        index_key, num, num_problems=modulus**length, held_out=held_out, held_out_share=held_out_share
    )
    powers = jnp.array([modulus**i for i in range(length)], jnp.int32)
    operands = index[:, None] // powers[None] % modulus
    shape = (num, candidates, length)
    fixed = jax.nn.one_hot(jax.random.randint(keys[0], shape[:2], 0, length), length, dtype=bool)
    slips = jax.random.bernoulli(keys[3], 0.5, (num, candidates, 1)) & (
        fixed | jax.random.bernoulli(keys[1], 1 / length, shape)
    )
    added = jnp.where(slips, jax.random.randint(keys[2], shape, 1, modulus), 0)
    sums = jnp.cumsum(operands[:, None] + added, axis=2) % modulus
    right = jnp.cumsum(operands, axis=1)[:, None, -1] % modulus
    return {
        'operands': operands, 'solutions': sums, 'right_steps': ~slips, 'answers': right[:, 0],
        'ends_right': sums[:, :, -1] == right,
    }

  def said(numbers: jax.Array) -> Piece:
    return Piece(digits[numbers.astype(jnp.int32)], jnp.full(len(numbers), numbers.shape[1]))

  def mark(character: str, num: int) -> Piece:
    return text.symbol(jnp.zeros(num, jnp.int32), character, alphabet)

  def asked(kind: jax.Array, operands: jax.Array, *behind: Piece) -> Piece:
    return text.join(
        text.symbol(kind, ''.join(FORMATS.values()), alphabet), said(operands), mark('=', len(kind)), *behind,
        mark('?', len(kind)), columns=prompt_columns,
    )

  def ask_free(operands: jax.Array, solutions: jax.Array) -> tuple[jax.Array, jax.Array]:
    free = jnp.full(len(operands), list(FORMATS).index('free'))
    prompt = asked(free, operands, said(solutions))
    return prompt.tokens, prompt.lengths

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    solve_key, kind_key, order_key = jax.random.split(key, 3)
    drawn = solve(solve_key, num, held_out, 2)
    kind = jax.random.randint(kind_key, (num,), 0, len(FORMATS))
    operands, first, steps = drawn['operands'], drawn['solutions'][:, 0], drawn['right_steps'][:, 0]
    right, ends_right = jnp.cumsum(operands, axis=1) % modulus, drawn['ends_right'][:, 0]
    # The second of a pair is right where the first is wrong; else it slips in its last step.
    slip = jax.random.randint(order_key, (num,), 1, modulus)
    slipped = right.at[:, -1].add(slip) % modulus
    due = lambda x: (jnp.pad(x, ((0, 0), (1, 0)))[:, :-1] + operands) % modulus
    second = jnp.where(ends_right[:, None], slipped, right)
    pair, beside = kind == 0, kind == 2
    comma = text.when(pair, mark(',', num))
    prompt = asked(
        kind, operands, said(first), comma, text.when(pair, said(second)),
        text.when(beside, mark('/', num)), text.when(beside, said(right[:, -1:])),
    )
    wrong_at = jnp.where(steps.all(axis=1), 0, 1 + jnp.argmin(steps, axis=1))
    verdict = jnp.stack(
        [jnp.where(ends_right, 1, 2), wrong_at, ends_right, ends_right, steps.sum(axis=1)], axis=1
    )
    verdict = jnp.take_along_axis(verdict.astype(jnp.int32), kind[:, None], axis=1)
    solution = text.join(
        text.when(~beside, said(due(first))), comma, text.when(pair, said(due(second))),
        mark('#', num), said(verdict), text.end(num), columns=answer_columns,
    )
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'formats': kind, 'verdicts': digits[verdict[:, 0]],
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    place = places(completions)
    comma, marker = text.characters(',#', alphabet)
    fits = jnp.isin(completions, digits) | (completions == comma)
    fits = jnp.where(place == -2, completions == marker, fits)
    fits = jnp.where(place == -1, completions == problems['verdicts'][:, None], fits)
    return (jnp.all(fits | (place >= 0), axis=1) & (place[:, 0] <= -2)).astype(jnp.float32)

  return JudgedTask(
      alphabet=alphabet, prompt_columns=prompt_columns, answer_columns=answer_columns, sample=sample,
      verify=verify, solve=solve, ask_free=ask_free,
  )
