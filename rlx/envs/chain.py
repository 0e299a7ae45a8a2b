"""Thinking before the answer: `342=` -> `3;7;9;#9`, running sums step by step, and then what they come to.

Digits are added modulo a number, so that each step is one character. Only the answer is asked for: steps may
be wrong, left out or said again, and what they are worth can be told exactly. Difficulty is the number of
steps. A check for what looks inside a completion: probes at the ends of steps, process rewards, budgets.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import StepTask
from rlx.types import Batch

SEPARATOR, MARKER = ';', '#'  # behind a step, in front of the answer
_MARKS = SEPARATOR + MARKER + '='  # in front of the digits, so that tokens do not depend on the modulus


def chain(*, modulus: int, min_steps: int, max_steps: int, checks: int, held_out_share: float) -> StepTask:
  """Sums of `min_steps` to `max_steps` digits; all numbers of digits are equally frequent.

  Solutions say the running sum after each digit, the last one up to `checks` times more, and the answer.

  Args:
    modulus: sums are taken modulo this, and digits are below it; in 2..10.
    min_steps: the fewest digits of a prompt, at least 1.
    max_steps: the most; the difficulty.
    checks: how often at most a solution says the last step again.
    held_out_share: in (0, 1), the part of all problems of each number of digits that is never trained on.
  Returns:
    The task. `verify` asks for steps of one digit and a separator each, as many as you like, the marker, the
    right digit and the end token. Problems have columns `operands` [N, max_steps], padded with -1, and
    `answers` [N, 1], tokens.
  Raises:
    ValueError: an argument out of its range, or a part without problems.
  """
  if not 2 <= modulus <= 10 or not 1 <= min_steps <= max_steps <= 8 or checks < 0:
    raise ValueError(
        f'modulus={modulus}, min_steps={min_steps}, max_steps={max_steps}, checks={checks}: need '
        '2 <= modulus <= 10, 1 <= min_steps <= max_steps <= 8 and checks >= 0'
    )
  alphabet = _MARKS + '0123456789'[:modulus]
  digits = text.characters('0123456789'[:modulus], alphabet)
  answer_columns = 2 * (max_steps + checks) + 3

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    count_key, check_key, *keys = jax.random.split(key, 3 + max_steps - min_steps)
    counts = jax.random.randint(count_key, (num,), min_steps, max_steps + 1)
    operands = jnp.full((num, max_steps), -1)
    for count, index_key in zip(range(min_steps, max_steps + 1), keys, strict=True):
      index = text.draw_indices(
          index_key, num, num_problems=modulus**count, held_out=held_out, held_out_share=held_out_share
      )
      powers = jnp.array([modulus**i for i in reversed(range(count))], jnp.int32)[None]
      drawn = index[:, None] // powers % modulus
      drawn = jnp.pad(drawn, ((0, 0), (0, max_steps - count)), constant_values=-1)
      operands = jnp.where(counts[:, None] == count, drawn, operands)
    steps = counts + jax.random.randint(check_key, (num,), 0, checks + 1)
    return _problems(operands, counts, steps)

  def _problems(operands, counts, steps):
    num, zero = counts.shape[0], jnp.zeros_like(counts)
    summed = jnp.pad(jnp.maximum(operands, 0), ((0, 0), (0, checks)))
    sums = jnp.cumsum(summed, axis=1) % modulus  # and the last one again, behind the last operand
    said = jnp.stack([digits[sums], jnp.full(sums.shape, alphabet.index(SEPARATOR) + 2)], axis=-1)
    answers = digits[sums[:, -1:]]
    mark = lambda character: text.symbol(zero, character, alphabet)
    prompt = text.join(
        text.Piece(digits[jnp.maximum(operands, 0)], counts), mark('='), columns=max_steps + 1
    )
    solution = text.join(
        text.Piece(said.reshape(num, -1), 2 * steps), mark(MARKER), text.Piece(answers, zero + 1),
        text.end(num), columns=answer_columns,
    )
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'operands': operands.astype(jnp.int32), 'answers': answers,
    }

  def place_of(completions):
    is_end = completions == text.EOS_ID
    place = jnp.arange(completions.shape[1])[None] - jnp.argmax(is_end, axis=1)[:, None]
    return jnp.where(is_end.any(axis=1)[:, None], place, 1)

  def well_formed(completions):
    """[N] whether there is nothing but, from the end, a digit, the marker, and separators and digits."""
    place, is_digit = place_of(completions), jnp.isin(completions, digits)
    separator, marker = text.characters(SEPARATOR + MARKER, alphabet)
    wanted = jnp.where((place % 2 == 1) & (place < -1), completions == separator, is_digit)
    wanted = jnp.where(place == -2, completions == marker, wanted)
    return jnp.all(wanted | (place >= 0), axis=1) & (place[:, 0] <= -2) & (place[:, 0] % 2 == 0)

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    completions = jnp.pad(completions, ((0, 0), (0, 3)))
    answered = (place_of(completions) != -1) | (completions == problems['answers'])
    return (well_formed(completions) & jnp.all(answered, axis=1)).astype(jnp.float32)

  most = max_steps + checks + 1  # steps, the answer among them

  def said(completions):
    is_digit = jnp.isin(completions, digits)
    place = jnp.where(is_digit, jnp.cumsum(is_digit, axis=1) - 1, most)
    return is_digit, place[:, :, None] == jnp.arange(most)[None, None]

  def grade_steps(problems: Batch, completions: jax.Array) -> jax.Array:
    is_digit, at = said(completions)
    wrong = wrong_steps(problems['operands'], completions, modulus=modulus)
    return jnp.any(at & (is_digit & ~wrong)[:, :, None], axis=1)

  def in_form(problems: Batch, completions: jax.Array) -> jax.Array:
    num_said = jnp.isin(completions, digits).sum(axis=1)
    return well_formed(jnp.pad(completions, ((0, 0), (0, 3)))) & (
        num_said > (problems['operands'] >= 0).sum(axis=1)
    )

  return StepTask(
      alphabet=alphabet, prompt_columns=max_steps + 1, answer_columns=answer_columns, sample=sample,
      verify=verify, max_steps=most, grade_steps=grade_steps, in_form=in_form,
      count_steps=lambda completions: jnp.minimum(jnp.isin(completions, digits).sum(axis=1), most),
  )


def wrong_steps(operands: jax.Array, completions: jax.Array, *, modulus: int) -> jax.Array:
  """Which tokens are in steps that do not follow from the step before; the answer is judged as a step too.

  A step is right if it adds the next operand to the number before, right or wrong, and behind the last
  operand if it says that number again. An answer adds all operands that no step has added. So one mistake is
  one wrong step.

  Args:
    operands: [N, S] int32 of the problems, -1 behind the last.
    completions: [N, C] tokens; judged are those up to the end token or the padding.
    modulus: of the task.
  Returns:
    [N, C] bool: True at the digit of a wrong step and the separator behind it, at a wrong answer, and at
    every token that is out of place, be it the end token.
  """
  first, num_columns = len(_MARKS) + 2, completions.shape[1]
  before = lambda x: jnp.pad(x, ((0, 0), (1, 0)))[:, :num_columns]
  is_digit = (completions >= first) & (completions < first + modulus)
  is_separator = completions == _MARKS.index(SEPARATOR) + 2
  is_marker = completions == _MARKS.index(MARKER) + 2
  is_end = completions == text.EOS_ID
  answering = jnp.cumsum(before(is_marker), axis=1) > 0

  values = jnp.where(is_digit, completions - first, 0)
  columns = jnp.broadcast_to(jnp.arange(num_columns)[None], completions.shape)
  last = before(jax.lax.cummax(jnp.where(is_digit, columns, -1), axis=1) + 1) - 1
  previous = jnp.where(last >= 0, jnp.take_along_axis(values, jnp.maximum(last, 0), axis=1), 0)
  sums = jnp.pad(jnp.cumsum(jnp.maximum(operands, 0), axis=1), ((0, 0), (1, 0)))
  sum_of = lambda count: jnp.take_along_axis(sums, jnp.minimum(count, operands.shape[1]), axis=1)
  count = jnp.cumsum(before(is_digit), axis=1)  # steps so far
  added = jnp.where(answering, sums[:, -1:], sum_of(count + 1)) - sum_of(count)
  wrong = is_digit & (values != (previous + added) % modulus)

  in_place = jnp.where(columns % 2 == 0, is_digit | is_marker, is_separator)
  in_place = jnp.where(answering, jnp.where(before(is_marker), is_digit, is_end), in_place)
  over = before(jnp.cumsum(is_end, axis=1) > 0) | (jnp.cumsum(completions == text.PAD_ID, axis=1) > 0)
  return (wrong | (is_separator & before(wrong)) | ~in_place) & ~over


def leaps(operands: jax.Array, completions: jax.Array, *, modulus: int) -> jax.Array:
  """Which tokens are of an answer in front of which steps were left out.

  Who flags wrong steps alone pays for saying fewer of them: one answer that adds what is left can be wrong
  once, the steps in its place each.

  Args:
    operands: [N, S] int32 of the problems, -1 behind the last.
    completions: [N, C] tokens.
    modulus: of the task.
  Returns:
    [N, C] bool: True from the first marker with fewer digits than operands before it, up to the end token.
  """
  first = len(_MARKS) + 2
  is_digit = (completions >= first) & (completions < first + modulus)
  is_marker = completions == _MARKS.index(MARKER) + 2
  early = is_marker & (jnp.cumsum(is_digit, axis=1) < (operands >= 0).sum(axis=1, keepdims=True))
  is_end = completions == text.EOS_ID
  over = (jnp.cumsum(is_end, axis=1) - is_end > 0) | (completions == text.PAD_ID)
  return (jnp.cumsum(early, axis=1) > 0) & ~over
