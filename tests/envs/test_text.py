"""The building blocks of text tasks: enumerations that are split, and ragged text that is put together."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import text
from rlx.envs.text import EOS_ID, PAD_ID, Piece, Task
from tests.cases import cases

SIZES = [1, 2, 3, 4, 5, 7, 10, 12, 64, 97, 100, 200, 210, 1000, 1024, 7919, 20_000, 65_536, 10**6]
LARGE_SIZES = [10**9, 2**30, 2**31 - 2, 2**31 - 1]  # the last one is a prime
ABC = 'abcdefghij0123456789-'
scatter = jax.jit(text.scatter, static_argnums=1)


def ids(string):
  """Tokens of `ABC`, with `.` for padding and `$` for the end token."""
  return [{'.': PAD_ID, '$': EOS_ID}.get(c, ABC.find(c) + 2) for c in string]


def table(*rows):
  return jnp.array([ids(row) for row in rows], jnp.int32)


@pytest.mark.parametrize('num_problems', cases(SIZES, at_once=SIZES[::3]))
def test_scatter_is_a_bijection(num_problems):
  scattered = np.asarray(scatter(jnp.arange(num_problems), num_problems))
  assert np.array_equal(np.sort(scattered), np.arange(num_problems))


@pytest.mark.parametrize('num_problems', cases(
    [*SIZES[3:], *LARGE_SIZES], at_once=(4, 97, 1000, *LARGE_SIZES[::3])
))
def test_scatter_is_affine_like_python_integers(num_problems):
  random = np.random.default_rng(0).integers(0, num_problems, 2000)
  index = np.concatenate([[0, 1, num_problems - 2, num_problems - 1], random]).astype(np.int32)
  scattered = np.asarray(scatter(jnp.asarray(index), num_problems)).tolist()
  b, a = scattered[0], (scattered[1] - scattered[0]) % num_problems
  assert math.gcd(a, num_problems) == 1
  assert scattered == [(a * i + b) % num_problems for i in index.tolist()]


@pytest.mark.parametrize('num_problems', cases(
    [100, 165, 200, 1000, 20_000, 166_650, 10**6, 10**7], at_once=(100, 20_000, 10**6)
))
@pytest.mark.parametrize('share', [0.1, 0.3])
def test_scatter_leaves_no_blocks(num_problems, share):
  """Held-out problems lie evenly among their neighbours: no gap is over three times the mean one."""
  held_out = np.sort(np.asarray(scatter(jnp.arange(int(num_problems * share)), num_problems)))
  assert np.diff(held_out).max() <= 3 / share


@pytest.mark.parametrize('held_out_share', [0.1, 0.5])
def test_draw_indices_splits_the_enumeration(held_out_share):
  draw = lambda seed, held_out: set(
      text.draw_indices(
          jax.random.key(seed), 2000, num_problems=100, held_out=held_out, held_out_share=held_out_share
      ).tolist()
  )
  held_out, training = draw(0, True), draw(1, False)
  assert len(held_out) == 100 * held_out_share
  assert held_out | training == set(range(100))
  assert not held_out & training
  assert draw(2, True) == held_out


@pytest.mark.parametrize('held_out_share', [0.0, 0.001, 1.0])
def test_draw_indices_refuses_an_empty_part(held_out_share):
  with pytest.raises(ValueError, match='leaves one part empty'):
    text.draw_indices(
        jax.random.key(0), 1, num_problems=100, held_out=True, held_out_share=held_out_share
    )


def test_decimal_digits_by_hand():
  digits = text.decimal_digits(jnp.array([0, 7, 120, 999]), 3)
  assert digits.tolist() == [[0, 0, 0], [0, 0, 7], [1, 2, 0], [9, 9, 9]]
  assert digits.dtype == jnp.int32


@pytest.mark.parametrize('num_digits', cases([1, 2, 5], at_once=(2,)))
def test_number_writes_what_python_writes(num_digits):
  values = np.unique(np.geomspace(1, 10**num_digits - 1, 300).astype(np.int32))
  values = np.concatenate([[0], values, [10**i for i in range(num_digits)]])
  piece = text.number(jnp.asarray(values), num_digits, ABC)
  for value, tokens, length in zip(values, np.asarray(piece.tokens), np.asarray(piece.lengths), strict=True):
    assert tokens[:length].tolist() == ids(str(value))


def test_symbol_when_and_end_by_hand():
  piece = text.symbol(jnp.array([1, 0]), 'c-', ABC)
  assert piece.tokens.tolist() == table('-', 'c').tolist()
  assert piece.lengths.tolist() == [1, 1]
  piece = text.when(jnp.array([True, False]), piece)
  assert piece.lengths.tolist() == [1, 0]
  assert text.end(2).tokens.tolist() == [[EOS_ID], [EOS_ID]]
  assert text.end(2).lengths.tolist() == [1, 1]


def test_join_closes_the_gaps():
  left = Piece(table('abc', 'def', 'ghi'), jnp.array([3, 1, 0]))
  middle = Piece(table('12', '34', '56'), jnp.array([1, 2, 0]))
  joined = text.join(left, middle, text.end(3), columns=7)
  assert joined.tokens.tolist() == table('abc1$..', 'd34$...', '$......').tolist()
  assert joined.lengths.tolist() == [5, 4, 1]


@pytest.mark.parametrize(
    ('completion', 'expected'),
    [
        ('12$', 1), ('12$..', 1), ('12$7$', 1), ('12', 0), ('12.', 0), ('12.$', 0), ('13$', 0), ('2$', 0),
        ('$12$', 0), ('.12$', 0), ('', 0), ('$', 0), ('123$', 0),
    ],
)
def test_matches_by_hand(completion, expected):
  rewards = text.matches(table('12$.', '345$'), jnp.tile(jnp.array(ids(completion), jnp.int32)[None], (2, 1)))
  assert rewards.tolist() == [expected, 0]
  assert rewards.dtype == jnp.float32


def test_encode_and_decode():
  task = Task(alphabet='xyz', prompt_columns=3, answer_columns=2, sample=None, verify=None)
  assert task.vocab_size == 5
  assert task.encode('zyx').tolist() == [4, 3, 2]
  assert task.encode('').dtype == np.int32
  assert task.decode([4, 3, 2]) == 'zyx'
  assert task.decode([4, 3, EOS_ID, 2]) == task.decode([4, 3, PAD_ID, 2]) == 'zy'
  with pytest.raises(ValueError, match='w'):
    task.encode('wx')
