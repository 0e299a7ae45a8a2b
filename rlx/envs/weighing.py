"""Which of two answers is better, by a rule of two steps: `134,261=` -> `141,212#<`, sums modulo 7.

An answer is worth the sum of its digits modulo a number, and the better one is worth more. No digit, and no
part of the digits, tells anything of the sum: who does not add them all up is right half of the time. A judge
can say the running sums first, which are one addition each, and compare what they come to.

`weighed` shows the thoughts, and `weighed_at_once` the verdict alone. Both pay for the verdict. In
`weighed_by_scores` what is asked says which rule holds: `b414,456=` -> `*421,464#1,4`. A judge names the
principle, goes through both answers, and gives each a score.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.types import Batch

MARKS = ',=#<>'  # in front of the digits, so that tokens do not depend on the modulus
MARKER, FIRST, SECOND = '#', '>', '<'  # in front of the verdict; the first answer is better; the second is
KINDS, PRINCIPLES = 'abc', '+*^'  # what is asked, and by which rule: the sum so far counts once, twice, ..


def weighed(*, modulus: int, length: int, held_out_share: float) -> Task:
  """Pairs of answers that are worth different sums; solutions think, and say who is better.

  Args:
    modulus: M, in 2..10; sums are taken modulo this, and digits are below it.
    length: L, digits of an answer, at least 1.
    held_out_share: in (0, 1), the part of all pairs that is never trained on.
  Returns:
    The task. `verify` asks for digits and commas, as many as you like, right or wrong, then the marker, the
    right verdict and the end token. Problems have columns `answers` [N, 2, L], digits in 0..M-1; `worth`
    [N, 2] in 0..M-1; and `verdicts` [N], tokens.
  Raises:
    ValueError: an argument out of its range, or more pairs than can be numbered.
  """
  return _weighed(modulus, length, held_out_share, thinks=True)


def weighed_at_once(*, modulus: int, length: int, held_out_share: float) -> Task:
  """`weighed` whose solutions say the verdict without a thought.

  Args:
    modulus: as for `weighed`.
    length: as for `weighed`.
    held_out_share: as for `weighed`.
  """
  return _weighed(modulus, length, held_out_share, thinks=False)


def _weighed(modulus, length, held_out_share, *, thinks) -> Task:
  alphabet = MARKS + '0123456789'[:modulus]
  columns = 2 * length + 4 if thinks else 3
  digits = text.characters('0123456789'[:modulus], alphabet)
  comma, marker = text.characters(',' + MARKER, alphabet)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    answers, kinds = draw_pairs(
        key, num, modulus=modulus, length=length, kinds=1, held_out=held_out, held_out_share=held_out_share
    )
    sums = running(answers, kinds, modulus=modulus)
    worth = sums[..., -1]
    mark = lambda character: text.symbol(jnp.zeros(num, jnp.int32), character, alphabet)
    verdict = text.symbol((worth[:, 1] > worth[:, 0]).astype(jnp.int32), FIRST + SECOND, alphabet)
    said = lambda x: text.Piece(digits[x], jnp.full(num, length))
    prompt = text.join(
        said(answers[:, 0]), mark(','), said(answers[:, 1]), mark('='), columns=2 * length + 2
    )
    thoughts = (said(sums[:, 0]), mark(','), said(sums[:, 1])) if thinks else ()
    solution = text.join(*thoughts, mark(MARKER), verdict, text.end(num), columns=columns)
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'answers': answers, 'worth': worth, 'verdicts': verdict.tokens[:, 0],
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    place = places(completions)
    thought = jnp.isin(completions, digits) | (completions == comma)
    fits = jnp.where(place == -2, completions == marker, thought)
    fits = jnp.where(place == -1, completions == problems['verdicts'][:, None], fits)
    return (jnp.all(fits | (place >= 0), axis=1) & (place[:, 0] <= -2)).astype(jnp.float32)

  return Task(
      alphabet=alphabet, prompt_columns=2 * length + 2, answer_columns=columns, sample=sample, verify=verify
  )


def weighed_by_scores(*, modulus: int, length: int, kinds: int, held_out_share: float) -> Task:
  """Pairs of answers to questions of several kinds; solutions say a principle, critiques and two scores.

  By the principle of kind k an answer d_1 .. d_L is worth r_L, with r_i = (k + 1) r_(i-1) + d_i modulo M. The
  critique says r_1 .. r_L of both answers, and the scores are what they come to.

  Args:
    modulus: M, as for `weighed`; not 2 or 3 where there are as many kinds.
    length: L, as for `weighed`.
    kinds: of questions, in 1..3; all are equally frequent.
    held_out_share: as for `weighed`.
  Returns:
    The task. `verify` asks for marker, score, comma, score, end token behind principles, digits and commas,
    right or wrong, and for the larger score for the better answer. Problems have the columns of `weighed`,
    but `verdicts`, and `kinds` [N] in 0..kinds-1.
  Raises:
    ValueError: as for `weighed`.
  """
  if not 1 <= kinds <= min(len(KINDS), modulus - 1):
    raise ValueError(f'kinds={kinds}: need 1 to {len(KINDS)}, and fewer than modulus={modulus}')
  alphabet = MARKS + '0123456789'[:modulus] + KINDS[:kinds] + PRINCIPLES[:kinds]
  columns = 2 * length + 7
  digits = text.characters('0123456789'[:modulus], alphabet)
  thoughts = text.characters(PRINCIPLES[:kinds] + ',', alphabet)
  comma, marker = text.characters(',' + MARKER, alphabet)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    answers, kind = draw_pairs(
        key, num, modulus=modulus, length=length, kinds=kinds, held_out=held_out,
        held_out_share=held_out_share,
    )
    sums = running(answers, kind, modulus=modulus)
    worth = sums[..., -1]
    mark = lambda character: text.symbol(jnp.zeros(num, jnp.int32), character, alphabet)
    said = lambda x: text.Piece(digits[x], jnp.full(num, x.shape[1]))
    prompt = text.join(
        text.symbol(kind, KINDS[:kinds], alphabet), said(answers[:, 0]), mark(','), said(answers[:, 1]),
        mark('='), columns=2 * length + 3,
    )
    solution = text.join(
        text.symbol(kind, PRINCIPLES[:kinds], alphabet), said(sums[:, 0]), mark(','), said(sums[:, 1]),
        mark(MARKER), said(worth[:, :1]), mark(','), said(worth[:, 1:]), text.end(num), columns=columns,
    )
    return {
        'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths, 'solutions': solution.tokens,
        'answers': answers, 'worth': worth, 'kinds': kind,
    }

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    place, is_digit = places(completions), jnp.isin(completions, digits)
    fits = jnp.where((place == -1) | (place == -3), is_digit, is_digit | jnp.isin(completions, thoughts))
    fits = jnp.where(place == -2, completions == comma, fits)
    fits = jnp.where(place == -4, completions == marker, fits)
    scores, worth = scores_of(completions), problems['worth']
    right = (scores[:, 0] > scores[:, 1]) == (worth[:, 0] > worth[:, 1])
    right &= (scores[:, 0] != scores[:, 1]) & (place[:, 0] <= -4)
    return (right & jnp.all(fits | (place >= 0), axis=1)).astype(jnp.float32)

  return Task(
      alphabet=alphabet, prompt_columns=2 * length + 3, answer_columns=columns, sample=sample, verify=verify
  )


def scores_of(completions: jax.Array) -> jax.Array:
  """[N, 2] float32 scores of the answers, at the end of critiques [N, C]; 0 for what is none."""
  place, digits = places(completions), completions - len(MARKS) - 2
  at = lambda where: jnp.sum(jnp.where((place == where) & (digits >= 0) & (digits < 10), digits, 0), axis=1)
  return jnp.stack([at(-3), at(-1)], axis=1).astype(jnp.float32)


def running(answers: jax.Array, kinds: jax.Array, *, modulus: int) -> jax.Array:
  """[N, 2, L] int32: what the answers [N, 2, L] come to, digit by digit, by the principles of kinds [N]."""
  total, sums = jnp.zeros(answers.shape[:2], jnp.int32), []
  for i in range(answers.shape[2]):
    total = ((kinds[:, None] + 1) * total + answers[..., i]) % modulus
    sums.append(total)
  return jnp.stack(sums, axis=-1)


def draw_pairs(
    key: jax.Array, num: int, *, modulus: int, length: int, kinds: int, held_out: bool, held_out_share: float
) -> tuple[jax.Array, jax.Array]:
  """Answers that are worth different sums, [num, 2, length] int32 digits, and kinds [num]; all as often.

  Args:
    key: consumed.
    num: how many pairs.
    modulus: as for `weighed`.
    length: as for `weighed`.
    kinds: as for `weighed_by_scores`.
    held_out: which part is drawn from.
    held_out_share: as for `weighed`.
  Raises:
    ValueError: as for `weighed`.
  """
  free = 2 * length - 1  # the last digit is what makes the sums differ by 1..M-1
  num_pairs = modulus**free * (modulus - 1) * kinds
  if not 2 <= modulus <= 10 or length < 1 or num_pairs >= 2**31:
    raise ValueError(
        f'modulus={modulus}, length={length}: need 2 <= modulus <= 10, length >= 1 and fewer than 2**31 '
        f'pairs; these are {num_pairs}'
    )
  index = text.draw_indices(
      key, num, num_problems=num_pairs, held_out=held_out, held_out_share=held_out_share
  )
  powers = jnp.array([modulus**i for i in range(free)], jnp.int32)
  drawn = jnp.pad(index[:, None] // powers[None] % modulus, ((0, 0), (0, 1))).reshape(num, 2, length)
  kind, ahead = index // modulus**free % kinds, 1 + index // modulus**free // kinds
  worth = running(drawn, kind, modulus=modulus)[..., -1]  # of the second one with a last digit of 0
  last = (worth[:, 0] + ahead - worth[:, 1]) % modulus
  return drawn.at[:, 1, -1].set(last).astype(jnp.int32), kind.astype(jnp.int32)


def places(completions: jax.Array) -> jax.Array:
  """[N, C] places of tokens beside the first end token, which is at 0; all 1 where there is none."""
  is_end = completions == text.EOS_ID
  place = jnp.arange(completions.shape[1])[None] - jnp.argmax(is_end, axis=1)[:, None]
  return jnp.where(is_end.any(axis=1)[:, None], place, 1)


def criticised_rows(problems: Batch) -> Batch:
  """`answer_rows` with a critique behind each, `134=141$`: the running sums that solutions of `weighed` show.

  Args:
    problems: [N] of `weighed`, whose solutions think.
  """
  rows, length, said = answer_rows(problems), problems['answers'].shape[2], problems['solutions']
  if said.shape[1] < 2 * length + 1:
    raise ValueError("the task's solutions show no thoughts; take the task 'weighing.weighed'")
  sums = jnp.stack([said[:, :length], said[:, length + 1 : 2 * length + 1]], axis=1)
  critiques = jnp.pad(_better_first(problems, sums), ((0, 0), (0, 1)), constant_values=text.EOS_ID)
  shown = text.demonstrations({
      'prompts': rows['tokens'], 'prompt_lengths': rows['valid'].sum(axis=1), 'solutions': critiques,
  })
  return {**shown, 'preferred': rows['preferred'], 'groups': rows['groups']}


def _better_first(problems: Batch, of_answers: jax.Array) -> jax.Array:
  """[2N, L] of [N, 2, L], that of the better answer of each problem before that of the worse one."""
  worth = problems['worth']
  order = jnp.where(worth[:, :1] > worth[:, 1:], jnp.array([[0, 1]]), jnp.array([[1, 0]]))
  return jnp.take_along_axis(of_answers, order[:, :, None], axis=1).reshape(-1, of_answers.shape[2])


def answer_rows(problems: Batch) -> Batch:
  """The answers of problems [N] each by itself, `134=`: comparisons [2N], the better one first.

  Returns:
    `tokens, valid` [2N, L + 1], `preferred` and `groups` [2N].
  """
  digits = _better_first(problems, problems['answers'])
  tokens = jnp.pad(digits + len(MARKS) + 2, ((0, 0), (0, 1)), constant_values=MARKS.index('=') + 2)
  row = jnp.arange(len(tokens))
  return {
      'tokens': tokens, 'valid': jnp.ones(tokens.shape, bool), 'preferred': row % 2 == 0, 'groups': row // 2,
  }
