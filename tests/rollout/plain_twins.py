"""Counterparts in Python of worlds on the device, for tests: their tool is the search that rlx has.

A policy that knows nothing is read so that it does everything now and then. Workers import this module.
"""

from collections.abc import Mapping, Sequence
import random

from rlx.envs.host.calls import Call, Malformed
from rlx.envs.host.search import _trial, search
from rlx.envs.host.tools import Last


def now_and_then(text: str) -> list:
  """A format in which texts of most lengths are a call of the world, and others are void."""
  return [Malformed('no call')] if len(text) % 5 == 0 else [Call('act', {'text': text})]


class Asked:
  """A question that passages answer: some texts search, some read a guideline, and some answer.

  What is answered is the last number that was read. Half of the searches have the words of the question.
  """

  def __init__(self, *, files: Sequence[Sequence[str]], folder: str, fails: float, pays: Mapping[str, float]):
    """Nothing is asked yet.

    Args:
      files: passages of each index.
      folder: where indexes are kept.
      fails: the chance that a search comes back with nothing.
      pays: part of the reward -> weight.
    """
    self._files, self._folder, self._fails, self._pays = files, folder, fails, pays

  def _trial(self) -> None:
    for files in self._files:
      _trial(files=files, field='text', folder=self._folder, results=2)

  def reset(self, question: str, answer: str, **columns) -> None:
    del columns
    self._question, self._answer = question, answer
    self._said, self._calls, self._ranks, self._right_index = None, 0, [], 0
    self._read = ''

  def act(self, text: str) -> str:
    """Searches, or answers.

    Args:
      text: anything.
    """
    if self._calls and len(text) % 3 == 0:
      self._said = self._read.split()[-1] if self._read else ''
      return Last('')
    self._calls += 1
    which = sum(map(ord, text)) % len(self._files)
    words = self._question if len(text) % 2 else text
    found = search(words, files=self._files[which], field='text', results=2, folder=self._folder)
    if random.random() < self._fails:
      found = 'nothing was found'
    passages = [line.partition(') ')[2] for line in found.splitlines() if line.startswith('(')]
    self._ranks.append([passage.split()[-1] == self._answer for passage in passages])
    self._right_index += which == 0
    self._read = passages[0] if passages else ''
    return found

  def get_reward(self) -> float:
    hits = [any(ranks) for ranks in self._ranks]
    parts = {
        'success': self._said == self._answer, 'hit_rate': any(hits), 'format': self._said is not None,
        'structure': bool(self._said) and any(hits), 'calls': self._calls,
        'right_index': self._right_index / max(self._calls, 1), 'well_formed': self._said is not None,
        'ndcg': max((1 / (1 + ranks.index(True)) for ranks in self._ranks if True in ranks), default=0),
        'f1': _f1(list(self._said or ''), list(self._answer)),
        'success_with_fewer': (self._said == self._answer) / (1 + self._calls),
    }
    return sum(weight * parts[name] for name, weight in self._pays.items())


class Planned:
  """A planner says what is searched, and a reader is told the passages and answers; each page costs."""

  seats = ('planner', 'reader')

  def __init__(self, *, files: Sequence[str], folder: str, cost: float):
    self._files, self._folder, self._cost = files, folder, cost

  def reset(self, question: str, answer: str, **columns) -> None:
    del columns
    self._question, self._answer, self._found = question, answer, ''

  def step(self, seat: str, text: str):
    if seat == 'planner':
      pages, words = 1 + len(text) % 2, self._question if len(text) % 3 else text
      self._found = search(words, files=self._files, field='text', results=pages, folder=self._folder)
      return {'reader': self._found}, {'planner': -self._cost * pages}, 'reader'
    is_right = self._found.split()[-1] == self._answer and len(text) % 2 == 0
    return {}, {'planner': float(is_right), 'reader': float(is_right)}, None


def _f1(said: list, right: list) -> float:
  both = sum(min(said.count(x), right.count(x)) for x in set(said))
  return 2 * both / (len(said) + len(right)) if both else 0.0
