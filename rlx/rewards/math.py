"""Rewards for mathematical answers: is the last answer of a completion the one of the data set?

Numbers, that is nearly all of GSM8K, are compared as exact fractions. Everything else goes through
math-verify, which parses LaTeX and compares with SymPy. This can take for ever, and math-verify's own time
limit needs signals, so it is off: run `math_answer` in a `RewardPool`, which kills what hangs. An answer that
hangs, or that cannot be compared, is wrong: only where the data set's own answer cannot be read is a row not
scored.
"""

from fractions import Fraction
import functools
import itertools
import numbers
import re
from typing import Any, NamedTuple

from rlx.rewards.texts import text_of

_MAX_CHARS = 1000  # nothing longer is parsed: no answer is, but runaway digits are
_TAIL_CHARS = 2000  # where math-verify looks for an answer that nothing marks

_DIGITS = r'(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)'
_LAST_NUMBER = re.compile(rf'(?<![\w.])[+-]?(?:{_DIGITS}(?:\.\d+)?|\.\d+)(?:/\d+)?(?: ?\\?%)?')
_NUMBER = re.compile(
    rf"""
    (?P<sign>[+-]?) [ ]?
    (?:(?P<whole>\d+)[ ](?=\d+[ ]?/))?  # of a mixed number: 2 1/2
    (?P<digits>{_DIGITS}(?:\.\d*)?|\.\d+) (?P<exponent>e[+-]?\d{{1,3}})?
    (?:[ ]?/[ ]?(?P<denominator>\d+))? [ ]? (?P<percent>%?)
    (?P<unit>(?:[ ][a-z]{{2,}}\.?)*)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_NOT_UNITS = frozenset(
    [
        *('and', 'or', 'to', 'times', 'plus', 'minus', 'over', 'mod', 'choose', 'squared', 'cubed'),
        *('pi', 'sqrt', 'root', 'ln', 'log', 'exp', 'sin', 'cos', 'tan', 'inf', 'infinity', 'factorial'),
        *('half', 'third', 'quarter', 'dozen', 'hundred', 'thousand', 'million', 'billion', 'trillion'),
    ]
)
_DELIMITERS = re.compile(r'\$\$(.*)\$\$|\$(.*)\$|\\\((.*)\\\)|\\\[(.*)\\\]|\*\*(.*)\*\*', re.DOTALL)
_REPLACEMENTS = [
    (re.compile(regex), replacement)
    for regex, replacement in (
        (r'\\(?:text|textrm|textbf|mathrm|mathbf|mbox)\s*\{([^{}]*)\}', r' \1 '),
        (r'\{,\}', ','),
        (r'\\[!,;: ]|[\u00a0\u2009\u202f]', ''),  # thin spaces, which may group digits
        (r'\\?[$€£¥₹]', ''),
        (r'\^\{?\\circ\}?|°', ''),
        (r'\\%|\bpercent(?:age)?\b', '%'),
        ('−', '-'),
        (r'\\[dt]?frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))', r' \1\2/\3\4 '),
        (r'\s+', ' '),
    )
]
_BRACES = re.compile(r'\\+boxed\s*\{|\\.|[{}]', re.DOTALL)


def math_answer(completions: list, answer: list, *, tolerance: float) -> list[float | None]:
  """1 where the final answer of a completion equals that of the data set, else 0.

  The answer of a completion is what its last `\\boxed{}` holds; without one, the line behind its last `####`;
  without both, its last number if the data set's answer is a number, else what math-verify finds near its
  end. Units, currencies and separators of thousands do not count; 25% equals both 25 and 0.25, as in
  math-verify. No answer, one that cannot be parsed, or one far too long is 0.

  Args:
    completions: [N] strings or lists of messages.
    answer: [N] the column of that name: numbers, or texts that are an answer (LaTeX or plain), hold it in
      `\\boxed{}`, or end in `#### 42` as in GSM8K.
    tolerance: numbers a and b (of the data set) are equal if |a - b| <= tolerance * max(1, |b|). What is no
      plain number is also equal where math-verify says so, which rounds to 6 decimals.
  Returns:
    [N] rewards; None where the answer of the data set cannot be parsed.
  Raises:
    ValueError: `tolerance` is negative, or the column holds something else.
  """
  if not 0 <= tolerance < float('inf'):
    raise ValueError(f'tolerance={tolerance} is not a finite number of at least 0')
  pairs = zip(completions, answer, strict=True)
  return [_score(text_of(completion), gold, tolerance) for completion, gold in pairs]


math_answer.imports = ('math_verify',)
math_answer.stopped_value = 0.0


def boxed(text: str) -> str | None:
  """What the last `\\boxed{}` with balanced braces holds; None if there is none."""
  openings, last = [], None
  for match in _BRACES.finditer(text):
    token = match[0]
    if token.endswith('{') and token != '\\{':
      openings.append(match)
    elif token == '}' and openings:
      opening = openings.pop()
      if opening[0] != '{' and (last is None or opening.end() > last[0]):
        last = opening.end(), match.start()
  return None if last is None else text[slice(*last)].strip()


def final_answer(text: str) -> str | None:
  """The last `\\boxed{}`, else the line behind the last `####`, else the last number; None without any."""
  marked = _marked(text)
  if marked is not None:
    return marked
  found = _LAST_NUMBER.findall(text)
  return found[-1] if found else None


def _marked(text: str) -> str | None:
  """The answer that a completion marks as such."""
  answer = boxed(text)
  if answer is None and '####' in text:
    answer = (text.rpartition('####')[2].strip().splitlines() or [''])[0].strip()
  return answer


class _Number(NamedTuple):
  value: Fraction
  is_percent: bool

  def readings(self) -> list[Fraction]:
    return [self.value, self.value / 100] if self.is_percent else [self.value]


_Answer = _Number | tuple  # a tuple of SymPy expressions, as math-verify parses them


def _score(completion: str, gold: Any, tolerance: float) -> float | None:
  right = _read(_gold_text(gold))
  if right is None:
    return None
  try:
    given = _given(completion, is_number=isinstance(right, _Number))
    return float(given is not None and _equal(given, right, tolerance))
  except Exception:  # of a text that nobody has seen, in libraries that were not made for it: no right answer
    return 0.0


def _given(completion: str, *, is_number: bool) -> _Answer | None:
  """The answer of a completion, to a question whose own is a number or not."""
  marked = _marked(completion)
  if marked is not None:
    return _read(marked)
  return _read(final_answer(completion) or '') if is_number else _parse(completion[-_TAIL_CHARS:])


def _gold_text(gold: Any) -> str:
  if gold is None or gold != gold:
    return ''  # missing
  if isinstance(gold, numbers.Real):
    return str(gold)
  if not isinstance(gold, str):
    raise ValueError(f'the column answer holds texts and numbers, not {type(gold).__name__}')
  marked = _marked(gold)
  return gold if marked is None else marked


def _read(answer: str) -> _Answer | None:
  """What an answer says; None if it cannot be parsed or is far too long."""
  answer = answer.strip()
  if not answer or len(answer) > _MAX_CHARS:
    return None
  return _number(answer) or _parse(f'\\boxed{{{answer}}}')


def _number(text: str) -> _Number | None:
  """The number that a text is, whatever is written around it; None if it is anything else."""
  while match := _DELIMITERS.fullmatch(text):
    text = next(inside for inside in match.groups() if inside is not None).strip()
  for regex, replacement in _REPLACEMENTS:
    text = regex.sub(replacement, text)
  match = _NUMBER.fullmatch(text.strip().rstrip('.,'))
  if not match or _NOT_UNITS.intersection(match['unit'].lower().replace('.', '').split()):
    return None
  denominator = int(match['denominator'] or 1)
  if not denominator:
    return None
  value = Fraction(match['digits'].replace(',', '').rstrip('.') + (match['exponent'] or '')) / denominator
  value += int(match['whole'] or 0)
  return _Number(-value if match['sign'] == '-' else value, bool(match['percent']))


@functools.lru_cache(maxsize=256)  # the rows of a group share the answer of the data set
def _parse(text: str) -> tuple | None:
  """What math-verify finds in a text."""
  from math_verify import parse

  return tuple(parse(text, fallback_mode='no_fallback', parsing_timeout=None)) or None


def _equal(given: _Answer, right: _Answer, tolerance: float) -> bool:
  if isinstance(given, _Number) and isinstance(right, _Number):
    if given.is_percent and right.is_percent:
      given, right = _Number(given.value, False), _Number(right.value, False)
    pairs = itertools.product(given.readings(), right.readings())
    return any(abs(a - b) <= Fraction(tolerance) * max(1, abs(b)) for a, b in pairs)
  from math_verify import verify

  given, right = _expressions(given), _expressions(right)
  pairs = itertools.product(given, right)
  return verify(right, given, timeout_seconds=None) or any(_is_close(a, b, tolerance) for a, b in pairs)


def _expressions(answer: _Answer) -> list:
  from sympy import Rational

  return [Rational(x) for x in answer.readings()] if isinstance(answer, _Number) else list(answer)


def _is_close(a, b, tolerance: float) -> bool:
  """Whether two expressions are numbers, and near each other."""
  if not (getattr(a, 'is_number', False) and getattr(b, 'is_number', False)):
    return False
  try:
    a, b = complex(a), complex(b)
  except (TypeError, ValueError, OverflowError):
    return False
  return abs(a - b) <= tolerance * max(1, abs(b))
