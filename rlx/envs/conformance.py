"""The contract of a text task as one function that a test calls.

`check_task(my_task)` passes, or says what is wrong and shows a problem. It looks at samples only, so it needs
to know nothing of the task; but give it a *small* instance: a leak between training and held-out problems
shows only where the draws meet a good share of all problems.
"""

import collections
from collections.abc import Sequence

import jax
import numpy as np

from rlx.envs.text import EOS_ID, PAD_ID, Task
from rlx.types import BATCH_KEYS

_FIRST_CHARACTER = 2  # tokens below are padding and end


def check_task(task: Task, *, num: int = 2000) -> None:
  """Raises `ValueError` where a task breaks the contract of `rlx.envs.text.Task`.

  Args:
    task: any text task; small is better, see above.
    num: problems a draw; there are four draws of each part.
  Raises:
    ValueError: a property that does not hold, with the first problem for which it does not.
  """
  _check_alphabet(task)
  sample = jax.jit(task.sample, static_argnums=(1, 2))
  keys = jax.random.split(jax.random.key(0), 4)
  training, held_out = (_checked_draws(task, sample, keys, num, part) for part in (False, True))
  texts = lambda draws: [[task.decode(row) for row in problems['prompts']] for problems in draws]
  check_split(texts(training), texts(held_out))
  _check_rows_are_independent(task, training[0])
  _check_transformations(task, training, keys, num)


def _checked_draws(task, sample, keys, num, held_out):
  """One batch of problems a key, as NumPy, each of which keeps the contract."""
  draws = [jax.tree.map(np.asarray, sample(key, num, held_out)) for key in keys]
  for problems in draws:
    _check_layout(task, problems, num)
    _check_text(task, problems)
  same = [np.array_equal(draws[0]['prompts'], problems['prompts']) for problems in draws[1:]]
  _require(not any(same), 'different keys draw the same problems')
  _check_right_answers(task, draws[0])
  _check_wrong_answers(task, draws[0])
  return draws


def _require(condition, message):
  if not condition:
    raise ValueError(message)


def _require_rows(fine, message, task, problems, completions=None):
  """Every row is fine, or the message with the first problem that is not."""
  bad = np.flatnonzero(~fine)
  if bad.size:
    answers = problems['solutions'] if completions is None else completions
    prompt, answer = (_show(task, rows[bad[0]]) for rows in (problems['prompts'], answers))
    raise ValueError(
        f'{message}: {bad.size} of {len(fine)} problems, the first has the prompt {prompt!r} and the answer '
        f'{answer!r} (`$` ends, `_` pads, `?` is no token of the task)'
    )


def _show(task, row):
  """Any tokens as text, with the special ones in sight."""
  return ''.join(('_$' + task.alphabet)[token] if 0 <= token < task.vocab_size else '?' for token in row)


def _check_alphabet(task):
  _require(len(task.alphabet) >= 2, f'the alphabet {task.alphabet!r} needs two characters or more')
  repeats = len(set(task.alphabet)) < len(task.alphabet)
  _require(not repeats, f'the alphabet {task.alphabet!r} repeats a character')


def _check_layout(task, problems, num):
  """Shapes, dtypes, and tokens that start at column 0 with nothing but padding behind them."""
  shapes = {
      'prompts': (num, task.prompt_columns), 'prompt_lengths': (num,), 'solutions': (num, task.answer_columns)
  }
  for name, shape in shapes.items():
    _require(name in problems, f'problems lack the column {name!r}; they have {sorted(problems)}')
    array = problems[name]
    _require(
        array.shape == shape and array.dtype == np.int32,
        f'problems[{name!r}] is {array.dtype}{array.shape}; it needs int32{shape}',
    )
  for name, array in problems.items():
    _require(array.shape[:1] == (num,), f'problems[{name!r}] is {array.shape}; its first axis is {num}')
  # A mixture says of which task a problem is, and means what a batch means by it.
  taken = (problems.keys() & BATCH_KEYS.keys()) - shapes.keys() - {'tasks'}
  _require(not taken, f'the columns {sorted(taken)} mean something else in a batch; rename them')
  prompts, lengths, solutions = (problems[name] for name in shapes)
  inside = np.arange(task.prompt_columns)[None] < lengths[:, None]
  _require_rows(
      (lengths >= 1) & (lengths <= task.prompt_columns) & (inside == _is_character(task, prompts)).all(1)
      & (inside | (prompts == PAD_ID)).all(1),
      'a prompt is `prompt_lengths` characters from column 0 and then padding; it is not so', task, problems,
  )
  ends = np.argmax(solutions == EOS_ID, axis=1)[:, None]
  columns = np.arange(task.answer_columns)[None]
  laid_out = np.where(columns < ends, _is_character(task, solutions), solutions == PAD_ID) | (columns == ends)
  _require_rows(
      (ends[:, 0] >= 1) & laid_out.all(1),
      'a solution is one character or more, one end token, and then padding; it is not so', task, problems,
  )


def _is_character(task, tokens):
  return (tokens >= _FIRST_CHARACTER) & (tokens < task.vocab_size)


def _check_text(task, problems):
  """decode and encode are inverses on what the task writes."""
  for row, length in zip(problems['prompts'], problems['prompt_lengths'], strict=True):
    again = task.encode(task.decode(row))
    _require(
        np.array_equal(again, row[:length]),
        f'encode(decode(prompt)) is {again.tolist()} for the prompt {row[:length].tolist()}',
    )


def _verify(task, problems, completions):
  """The rewards [N] as NumPy, after a look at their form."""
  rewards = jax.jit(task.verify)(problems, completions)
  num = completions.shape[0]
  _require(
      rewards.shape == (num,) and rewards.dtype == np.float32,
      f'verify returns {rewards.dtype}{rewards.shape}; it needs float32({num},)',
  )
  rewards = np.asarray(rewards)
  _require(np.isin(rewards, (0, 1)).all(), f'verify returns {np.unique(rewards)[:5]}; it needs 0 or 1')
  return rewards == 1


def _check_right_answers(task, problems):
  """Solutions verify, whatever the policy wrote behind the end token."""
  solutions = problems['solutions']
  _require_rows(_verify(task, problems, solutions), 'a solution does not verify', task, problems)
  longer = np.pad(solutions, ((0, 0), (0, 5)))
  junk = np.random.default_rng(0).integers(0, task.vocab_size, longer.shape, np.int32)
  behind = np.arange(longer.shape[1])[None] > np.argmax(longer == EOS_ID, axis=1)[:, None]
  for tail in (np.full_like(junk, EOS_ID), junk):
    completions = np.where(behind, tail, longer)
    _require_rows(
        _verify(task, problems, completions),
        'a solution with something behind its end token does not verify', task, problems, completions,
    )


def _check_wrong_answers(task, problems):
  """What no task may accept; and altered solutions, which only a lenient one accepts in part."""
  solutions = problems['solutions']
  padding = np.full_like(solutions, PAD_ID)
  first = np.arange(solutions.shape[1])[None] == 0
  wrong = {
      'a solution without its end token': np.where(solutions == EOS_ID, padding, solutions),
      'the first column of a solution alone': solutions[:, :1],
      'an empty completion': np.where(first, np.full_like(solutions, EOS_ID), padding),
      'a completion of padding': padding,
  }
  for what, completions in wrong.items():
    _require_rows(~_verify(task, problems, completions), f'{what} verifies', task, problems, completions)
  accepted = _verify(task, problems, _altered(task, solutions)).mean()
  _require(
      accepted <= 0.5,
      f'{accepted:.0%} of the solutions still verify with one character changed; at most half may',
  )


def _altered(task: Task, solutions: np.ndarray) -> np.ndarray:
  """Solutions with one random character replaced by a random other one."""
  random = np.random.default_rng(1)
  lengths = np.argmax(solutions == EOS_ID, axis=1)
  position = random.integers(lengths)[:, None]
  shift = random.integers(1, len(task.alphabet), lengths.shape)[:, None]
  changed = (solutions - _FIRST_CHARACTER + shift) % len(task.alphabet) + _FIRST_CHARACTER
  return np.where(np.arange(solutions.shape[1])[None] == position, changed, solutions).astype(np.int32)


def _check_rows_are_independent(task, problems):
  """Each row is judged by itself: reversed rows get reversed rewards."""
  completions = problems['solutions'].copy()
  completions[1::2] = PAD_ID
  rewards = _verify(task, problems, completions)
  reversed_rewards = _verify(task, *jax.tree.map(lambda a: a[::-1], (problems, completions)))
  _require_rows(
      rewards == reversed_rewards[::-1], 'the reward of a row depends on the other rows',
      task, problems, completions,
  )


def check_split(training: Sequence[Sequence], held_out: Sequence[Sequence]) -> None:
  """No problem is in both parts, whatever the keys; held-out problems are one set, whatever the key.

  Args:
    training: of each draw, what tells its problems apart.
    held_out: likewise.
  Raises:
    ValueError: it is not so.
  """
  both = set().union(*training) & set().union(*held_out)
  _require(
      not both, f'{len(both)} problems are drawn for training and held out, one is {min(both, default="")!r}'
  )
  first, *others = held_out
  counts = collections.Counter(first)
  unseen = max(np.mean([prompt not in counts for prompt in other]) for other in others)
  # Good and Turing: a draw is new about as often as a draw so far was the only one of its kind.
  expected = np.mean([counts[prompt] == 1 for prompt in first])
  _require(
      unseen <= expected + 4 / len(first) ** 0.5,
      f'{unseen:.0%} of the held-out problems of one key are new to another key; {expected:.0%} were '
      'if both keys drew from the same set',
  )


def _check_transformations(task, training, keys, num):
  """The same keys give the same problems in another trace, which is one under `vmap` as well."""
  stacked = jax.jit(jax.vmap(lambda key: task.sample(key, num, False)))(keys)
  expected = jax.tree.map(lambda *draws: np.stack(draws), *training)
  same = stacked.keys() == expected.keys() and all(np.array_equal(stacked[k], expected[k]) for k in stacked)
  _require(same, 'the same keys give other problems when traced again, under vmap')
  rewards = jax.jit(jax.vmap(task.verify))(stacked, stacked['solutions'])
  _require(np.asarray(rewards == 1).all(), 'solutions that verify do not under vmap')
