"""Rewards for the form of a completion: tags in their order, or a pattern. In TRL's signature (`pool.py`)."""

from collections.abc import Sequence
import re

from rlx.rewards.texts import text_of


def tags(completions: list, *, sequence: Sequence[str]) -> list[float]:
  """1 where a completion is exactly these pairs of tags in this order, with any text inside them.

  Each tag stands once, and there is nothing but white space before, between and behind the pairs. The prompt
  does not count: where it ends with the first opening tag, use `pattern`.

  Args:
    completions: [N] strings or lists of messages.
    sequence: names without brackets, as `('think', 'answer')`.
  Raises:
    ValueError: `sequence` is empty, repeats a name, or is one string.
  """
  return [float(_is_sequence(text_of(completion), _checked(sequence))) for completion in completions]


def tags_partial(completions: list, *, sequence: Sequence[str]) -> list[float]:
  """The share of the tags that stand once, as a pair, and behind the pairs before them in the sequence.

  Where `tags` is 1, so is this; but this does not mind other text around the pairs. Args as for `tags`.
  """
  return [_num_pairs(text_of(completion), _checked(sequence)) / len(sequence) for completion in completions]


def pattern(completions: list, *, regex: str) -> list[float]:
  """1 where a regular expression matches a whole completion; a dot matches line ends too.

  Args:
    completions: [N] strings or lists of messages.
    regex: as Python's `re` reads it. Nested repetitions may take for ever; that costs the row its score.
  """
  return [float(bool(re.fullmatch(regex, text_of(completion), re.DOTALL))) for completion in completions]


def _is_sequence(text: str, sequence: Sequence[str]) -> bool:
  end = 0
  for tag in sequence:
    pair = _pair(text, tag)
    if pair is None or pair[0] < end or text[end : pair[0]].strip():
      return False
    end = pair[1]
  return not text[end:].strip()


def _num_pairs(text: str, sequence: Sequence[str]) -> int:
  end = count = 0
  for tag in sequence:
    pair = _pair(text, tag)
    if pair is not None and pair[0] >= end:
      end = pair[1]
      count += 1
  return count


def _pair(text: str, tag: str) -> tuple[int, int] | None:
  """Where the pair begins and ends, if each of its tags stands once and the opening one first."""
  opening, closing = f'<{tag}>', f'</{tag}>'
  if text.count(opening) != 1 or text.count(closing) != 1:
    return None
  start, end = text.index(opening), text.index(closing)
  return (start, end + len(closing)) if start < end else None


def _checked(sequence: Sequence[str]) -> Sequence[str]:
  if isinstance(sequence, str) or not sequence or len(set(sequence)) < len(sequence):
    raise ValueError(f'sequence={sequence!r} is not a list of different tags such as ("think", "answer")')
  return sequence
