"""A table of two: one answers a problem, the other works it out anew, and accepts the answer or does not."""

from fractions import Fraction
import re

from rlx.rewards.math import final_answer

_PLAIN = re.compile(r'[+-]?\d{1,30}(\.\d{1,30})?')


class Checked:
  """The solver is paid for its last answer, the checker for each verdict.

  The checker is told what the solver said, and answers the problem itself: it accepts where the two answers
  are the same. An answer that it sends back is given anew, as long as there are attempts.
  """

  seats = ('solver', 'checker')

  def __init__(self, *, attempts: int, again: str):
    """Nothing is asked yet.

    Args:
      attempts: of the solver, at most.
      again: what stands behind the words that a seat is told, before it answers.
    """
    self._attempts, self._again = attempts, again

  def reset(self, answer: str, **columns) -> None:
    """Begins with the column `answer` of a row."""
    del columns
    self._right, self._said, self._num = answer, '', 0

  def step(self, seat: str, text: str) -> tuple[dict[str, str], dict[str, float], str | None]:
    """An answer of the solver, or of the checker."""
    if seat == 'solver':
      self._said, self._num = text, self._num + 1
      return {'checker': text + self._again}, {}, 'checker'
    accepts, is_right = _same(text, self._said), _same(self._said, self._right)
    paid = {'checker': float(accepts == is_right) / self._attempts}
    if accepts or self._num == self._attempts:
      return {}, {**paid, 'solver': float(is_right)}, None
    return {'solver': self._again}, paid, 'solver'


def _same(text: str, other: str) -> bool:
  """Whether two texts come to the same number; one without a number comes to none."""
  number = _number(text)
  return number is not None and number == _number(other)


def _number(text: str) -> Fraction | None:
  """The last number of a text, or that behind its last `####`."""
  found = (final_answer(text) or '').replace(',', '').strip(' .$')
  return Fraction(found) if _PLAIN.fullmatch(found) else None
