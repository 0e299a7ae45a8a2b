"""Two letters behind one another, each of which stands for a permutation of digits: `ab3` -> `52`.

The first letter is applied to the digit and the second to what comes out, and both values are said. Nothing
tells what a letter stands for. It is `skills` with chains of two and no other forms of a problem, so that it
is soon compiled: for runs of several models, and worlds that are built around it.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import Task
from rlx.errors import between
from rlx.types import Batch

_DIGITS, _LETTERS = '0123456789', 'abcdefgh'
_PRIMES = (3, 5, 7)


def ciphers(*, modulus: int, letters: int, used: tuple[int, ...]) -> Task:
  """Problems of two letters and a digit; of each pair of letters one digit is never trained on.

  Args:
    modulus: number of digits, 3, 5 or 7: all multiplications have to be permutations.
    letters: of the alphabet, in 1..6.
    used: letters that are drawn. Tasks that differ in this alone have the same tokens and hold the same
      problems out.
  Returns:
    The task. `verify` asks for both values and the end token.
  """
  if modulus not in _PRIMES:
    raise ValueError(f'modulus={modulus} is none of {_PRIMES}')
  between(1, 6, letters=letters)
  if not used or not set(used) <= set(range(letters)):
    raise ValueError(f'used={used}: some of the letters 0..{letters - 1}, one at least')
  alphabet = _LETTERS[:letters] + _DIGITS[:modulus]
  spoken, digits = (text.characters(x, alphabet) for x in (_LETTERS[:letters], _DIGITS[:modulus]))
  table = jnp.asarray(permutations(modulus, letters))

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    letter_key, digit_key = jax.random.split(key)
    pair = jnp.array(used)[jax.random.randint(letter_key, (num, 2), 0, len(used))]
    kept_out = (pair[:, 0] * 2 + pair[:, 1] * 3) % modulus
    low, high = (0, 1) if held_out else (1, modulus)
    digit = (kept_out + jax.random.randint(digit_key, (num,), low, high)) % modulus
    first = table[pair[:, 0], digit]
    second = table[pair[:, 1], first]
    end = jnp.full((num,), text.EOS_ID, jnp.int32)
    return {
        'prompts': jnp.stack([spoken[pair[:, 0]], spoken[pair[:, 1]], digits[digit]], axis=1),
        'prompt_lengths': jnp.full((num,), 3, jnp.int32),
        'solutions': jnp.stack([digits[first], digits[second], end], axis=1),
    }

  return Task(
      alphabet=alphabet, prompt_columns=3, answer_columns=3, sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )


def permutations(modulus: int, letters: int) -> np.ndarray:
  """[letters, modulus] what each letter makes of each digit: x -> s x + o, of which none is the identity."""
  letter = np.arange(letters)[:, None]
  return ((1 + letter % (modulus - 1)) * np.arange(modulus)[None] + 1 + letter // 2) % modulus
