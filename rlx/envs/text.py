"""What a procedural text task is: problems in pure JAX, with a view as text.

A `Task` makes problems and verifies completions inside the compiled step. Problems are enumerated, and a
fixed bijection scatters the numbers of the problems; the first share of the scattered numbers is held out.
So a held-out problem is never trained on, by construction and for every seed. `conformance.py` checks this
and the rest of the contract for any task, yours too.

Functions here are compiled inline: a program that calls them has their operations as if they were not, and
who calls them by themselves compiles one program and not one for each operation.
"""

from collections.abc import Callable
import dataclasses
import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.types import Batch, World

PAD_ID = 0
EOS_ID = 1
_NUM_SPECIAL = 2
_DEMONSTRATED = ('prompts', 'prompt_lengths', 'solutions')  # which become tokens


@dataclasses.dataclass(frozen=True, kw_only=True)
class Task:
  """A family of problems with checkable answers.

  Attributes:
    alphabet: the characters of the task; character i is token i + 2, after padding (0) and end (1).
    prompt_columns: length of the longest prompt, in tokens.
    answer_columns: length of the longest solution with its end token, in tokens.
    sample: `(key, num_problems, held_out) -> problems`, a batch with `prompts` [N, prompt_columns],
      `prompt_lengths` [N], `solutions` [N, answer_columns] (one correct completion, end token included,
      then padding), and whatever columns `verify` reads.
    verify: `(problems, completions [N, C]) -> [N] float32`, 1 where a completion solves its problem.
  """

  alphabet: str
  prompt_columns: int
  answer_columns: int
  sample: Callable[[jax.Array, int, bool], Batch]
  verify: Callable[[Batch, jax.Array], jax.Array]

  @property
  def vocab_size(self) -> int:
    return len(self.alphabet) + _NUM_SPECIAL

  @property
  def eos_ids(self) -> tuple[int, ...]:
    return (EOS_ID,)

  @property
  def pad_id(self) -> int:
    return PAD_ID

  @property
  def vocabulary(self) -> list[bytes]:
    """The bytes of each token; of padding and end, none."""
    return [b''] * _NUM_SPECIAL + [character.encode() for character in self.alphabet]

  @property
  def action_columns(self) -> int:
    """The most actions of a demonstration, in tokens."""
    return self.answer_columns

  @property
  def data(self) -> None:
    """A procedural task makes its problems: it holds none."""

  def begin(self, key: jax.Array) -> World:
    """An empty memory: problems are drawn anew each time."""
    del key
    return {}

  def draw(self, world: World, key: jax.Array, num: int) -> tuple[Batch, World]:
    """`num` training problems."""
    return self.sample(key, num, False), world

  def demonstrate(self, world: World, key: jax.Array, num: int) -> tuple[Batch, World]:
    """`num` training problems with their solutions as the actions; other columns of theirs stay."""
    problems = self.sample(key, num, False)
    others = {name: x for name, x in problems.items() if name not in _DEMONSTRATED}
    return {**others, **demonstrations(problems)}, world

  def encode(self, text: str) -> np.ndarray:
    """[len(text)] int32 tokens. Raises `ValueError` for a character that the task does not know."""
    unknown = set(text) - set(self.alphabet)
    if unknown:
      raise ValueError(f'characters {sorted(unknown)} are not in the alphabet {self.alphabet!r}')
    return np.array([self.alphabet.index(c) + _NUM_SPECIAL for c in text], np.int32)

  def decode(self, tokens) -> str:
    """The text up to the end token or the padding."""
    tokens = np.asarray(tokens).tolist()
    ends = [i for i, token in enumerate(tokens) if token < _NUM_SPECIAL]
    return ''.join(self.alphabet[t - _NUM_SPECIAL] for t in tokens[: min(ends, default=len(tokens))])


@dataclasses.dataclass(frozen=True, kw_only=True)
class StepTask(Task):
  """A task whose solutions are steps that are right or wrong by themselves.

  Attributes:
    max_steps: S, the most steps that are graded.
    count_steps: `completions [N, C] -> [N] int32`, how many steps a completion says; S at most.
    grade_steps: `(problems, completions) -> [N, S] bool`, which of them are right; False behind the last one.
    in_form: `(problems, completions) -> [N] bool`, whether a completion has a solution's form and length,
      right or wrong.
  """

  max_steps: int
  count_steps: Callable[[jax.Array], jax.Array]
  grade_steps: Callable[[Batch, jax.Array], jax.Array]
  in_form: Callable[[Batch, jax.Array], jax.Array]


def draw_indices(key: jax.Array, num: int, *, num_problems: int, held_out: bool, held_out_share: float):
  """[num] int32 numbers of problems, uniform over the training or the held-out share.

  Args:
    key: consumed.
    num: how many to draw, with replacement.
    num_problems: size N of the enumeration, below 2**31.
    held_out: which of the two disjoint parts to draw from.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Raises:
    ValueError: a part would be empty.
  """
  boundary = int(num_problems * held_out_share)
  if not 0 < boundary < num_problems:
    raise ValueError(
        f'held_out_share={held_out_share} of {num_problems} problems leaves one part empty; '
        'make the task larger or move the share'
    )
  low, high = (0, boundary) if held_out else (boundary, num_problems)
  return scatter(jax.random.randint(key, (num,), low, high), num_problems)


@functools.partial(jax.jit, inline=True, static_argnames=('num_problems',))
def scatter(index: jax.Array, num_problems: int) -> jax.Array:
  """A fixed bijection of 0..num_problems-1 that leaves no visible order: i -> (a i + b) mod N.

  The product is formed by as many bits of a at a time as keep it below 2**32. (By doublings and conditional
  subtractions, one bit at a time, LLVM took a minute to compile it for a CPU.)

  Args:
    index: any shape, int32 in 0..num_problems-1.
    num_problems: N, below 2**31.
  """
  factor = _spreading_factor(num_problems)
  width = 32 - num_problems.bit_length()
  index = index.astype(jnp.uint32)
  total = jnp.zeros_like(index)
  for place in reversed(range(0, factor.bit_length(), width)):
    digit = factor >> place & (1 << width) - 1
    total = ((total << width) % num_problems + index * digit % num_problems) % num_problems
  return ((total + num_problems // 3) % num_problems).astype(jnp.int32)


def _spreading_factor(num_problems: int) -> int:
  """The a that is coprime to N and spreads runs of any length evenly: a/N is far from simple fractions.

  Near the golden section the first partial quotients of a/N are 1; the last ones decide about long runs, and
  one that is large makes a run fill whole blocks of neighbours (at N = 10**7, of 114 for a tenth of N).
  """

  def largest_quotient(factor):
    low, high, largest = factor, num_problems, 0
    while low:
      largest, low, high = max(largest, high // low), high % low, low
    return largest

  start = max(round(num_problems * 0.6180339887), 1)
  candidates = [a for a in range(start, start + 200) if a < num_problems and math.gcd(a, num_problems) == 1]
  return min(candidates, key=largest_quotient, default=1)


def one_token(task: Task, text: str) -> int:
  """The token that a text is, in the words of a task or of a data set.

  Raises:
    ValueError: it is none, or several.
  """
  tokens = task.encode(text).tolist()
  if len(tokens) != 1:
    raise ValueError(f'{text!r} is {len(tokens)} tokens of the task; a separator needs to be one')
  return tokens[0]


@functools.partial(jax.jit, inline=True)
def demonstrations(problems: Batch) -> Batch:
  """Problems and their solutions as rows: `tokens, valid, action_mask, prompt_lengths, turns, groups`."""
  prompts, lengths, answers = (problems[k] for k in ('prompts', 'prompt_lengths', 'solutions'))
  num_rows, prompt_columns = prompts.shape
  columns = jnp.arange(prompt_columns + answers.shape[1])[None]
  index = columns - lengths[:, None]
  answer = jnp.take_along_axis(answers, jnp.clip(index, 0, answers.shape[1] - 1), axis=1)
  action_mask = (index >= 0) & (index < answers.shape[1]) & (answer != PAD_ID)
  prompt = jnp.pad(prompts, ((0, 0), (0, answers.shape[1])))
  return {
      'tokens': jnp.where(index < 0, prompt, jnp.where(action_mask, answer, PAD_ID)),
      'valid': (index < 0) | action_mask,
      'action_mask': action_mask,
      'prompt_lengths': lengths,
      'turns': jnp.where(index < 0, -1, 0),
      'groups': jnp.arange(num_rows),
  }


class Piece(NamedTuple):
  """Ragged text: `tokens` [N, C] of which the first `lengths` [N] count."""

  tokens: jax.Array
  lengths: jax.Array


@functools.partial(jax.jit, inline=True, static_argnames=('num_digits', 'alphabet'))
def number(values: jax.Array, num_digits: int, alphabet: str) -> Piece:
  """Non-negative integers [N] below 10**num_digits in decimal, without leading zeros."""
  digits = decimal_digits(values, num_digits)
  lengths = num_digits - jnp.sum(jnp.cumsum(digits[:, :-1], axis=1) == 0, axis=1)
  index = (num_digits - lengths)[:, None] + jnp.arange(num_digits)[None]
  digits = jnp.take_along_axis(digits, jnp.minimum(index, num_digits - 1), axis=1)
  return Piece(characters('0123456789', alphabet)[digits], lengths)


def decimal_digits(values: jax.Array, num_digits: int) -> jax.Array:
  """[N, num_digits] int32 digits of integers [N] in 0..10**num_digits-1, the first one first."""
  powers = np.array([10**i for i in reversed(range(num_digits))], np.int32)
  return values[:, None] // powers[None] % 10


@functools.partial(jax.jit, inline=True, static_argnames=('choices', 'alphabet'))
def symbol(index: jax.Array, choices: str, alphabet: str) -> Piece:
  """One character a row: `choices[index]`, index [N]."""
  return Piece(characters(choices, alphabet)[index][:, None], jnp.ones_like(index))


def characters(text: str, alphabet: str) -> jax.Array:
  """[len(text)] int32 tokens of characters of the alphabet."""
  return jnp.array([alphabet.index(c) + _NUM_SPECIAL for c in text], jnp.int32)


def when(condition: jax.Array, piece: Piece) -> Piece:
  """The piece where `condition` [N] holds, nothing elsewhere."""
  return Piece(piece.tokens, jnp.where(condition, piece.lengths, 0))


def end(num: int) -> Piece:
  """The end-of-sequence token, for `num` rows."""
  return Piece(jnp.full((num, 1), EOS_ID, jnp.int32), jnp.ones(num, jnp.int32))


@functools.partial(jax.jit, inline=True, static_argnames=('columns',))
def join(*pieces: Piece, columns: int) -> Piece:
  """Pieces one behind the other, without gaps, padded to `columns`."""
  num_rows = pieces[0].tokens.shape[0]
  rows = jnp.arange(num_rows)[:, None]
  tokens = jnp.full((num_rows, columns), PAD_ID, jnp.int32)
  lengths = jnp.zeros(num_rows, jnp.int32)
  for piece in pieces:
    offset = jnp.arange(piece.tokens.shape[1])[None]
    target = jnp.where(offset < piece.lengths[:, None], lengths[:, None] + offset, columns)
    tokens = tokens.at[rows, target].set(piece.tokens, mode='drop')
    lengths += piece.lengths
  return Piece(tokens, lengths)


@functools.partial(jax.jit, inline=True)
def matches(solutions: jax.Array, completions: jax.Array) -> jax.Array:
  """[N] float32: 1 where a completion is its solution, to the letter and up to the end token.

  Args:
    solutions: [N, A] tokens, each with an end token.
    completions: [N, C] tokens; what stands behind the end token does not count.
  """
  columns = solutions.shape[1]
  completions = jnp.pad(completions, ((0, 0), (0, max(columns - completions.shape[1], 0))))[:, :columns]
  counted = jnp.cumsum(solutions == EOS_ID, axis=1) - (solutions == EOS_ID) == 0
  return jnp.all((solutions == completions) | ~counted, axis=1).astype(jnp.float32)
