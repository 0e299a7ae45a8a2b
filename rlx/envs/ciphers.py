"""Two letters behind one another, each of which stands for a permutation of digits: `ab3.` -> `52`.

The first letter is applied to the digit and the second to what comes out, and both values are said. Nothing
tells what a letter stands for. The sign at the end means nothing: each question is there with all signs, and
with one of them it is never trained on. A task like `skills`, and soon compiled: for runs of several models,
and for worlds that are built around it.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import Task
from rlx.errors import between
from rlx.types import Batch

_DIGITS, _LETTERS, _SIGNS = '0123456789', 'abcdefgh', '.,:;'
_PRIMES = (3, 5, 7)


def ciphers(*, modulus: int, letters: int, domains: tuple[str, ...]) -> Task:
  """Problems of two letters and a digit, each with one sign that is held out.

  Args:
    modulus: number of digits, 3, 5 or 7: all multiplications have to be permutations.
    letters: of the alphabet, in 1..6.
    domains: letters that stand beside one another, such as ('ab', 'cd'), as many in each; a problem is of one
      of them, twice as often of one that is named twice. Tasks that differ in this alone have the same tokens
      and hold the same problems out.
  Returns:
    The task. `verify` asks for both values and the end token.
  """
  if modulus not in _PRIMES:
    raise ValueError(f'modulus={modulus} is none of {_PRIMES}')
  between(1, 6, letters=letters)
  known = _LETTERS[:letters]
  if not domains or len({*map(len, domains)}) > 1 or not set(''.join(domains)) <= set(known):
    raise ValueError(f'domains={domains}: one at least, each of as many of the letters {known!r}')
  alphabet = known + _DIGITS[:modulus] + _SIGNS
  spoken, digits, signs = (text.characters(x, alphabet) for x in (known, _DIGITS[:modulus], _SIGNS))
  table = jnp.asarray(permutations(modulus, letters))
  indices = jnp.array([[known.index(letter) for letter in domain] for domain in domains])

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    domain_key, letter_key, digit_key, sign_key = jax.random.split(key, 4)
    domain = jax.random.randint(domain_key, (num, 1), 0, indices.shape[0])
    pair = indices[domain, jax.random.randint(letter_key, (num, 2), 0, indices.shape[1])]
    digit = jax.random.randint(digit_key, (num,), 0, modulus)
    kept_out = pair[:, 0] + pair[:, 1] + digit
    low, high = (0, 1) if held_out else (1, len(_SIGNS))
    sign = (kept_out + jax.random.randint(sign_key, (num,), low, high)) % len(_SIGNS)
    first = table[pair[:, 0], digit]
    second = table[pair[:, 1], first]
    end = jnp.full((num,), text.EOS_ID, jnp.int32)
    return {
        'prompts': jnp.stack(
            [spoken[pair[:, 0]], spoken[pair[:, 1]], digits[digit], signs[sign]], axis=1
        ),
        'prompt_lengths': jnp.full((num,), 4, jnp.int32),
        'solutions': jnp.stack([digits[first], digits[second], end], axis=1),
    }

  return Task(
      alphabet=alphabet, prompt_columns=4, answer_columns=3, sample=sample,
      verify=lambda problems, completions: text.matches(problems['solutions'], completions),
  )


def permutations(modulus: int, letters: int) -> np.ndarray:
  """[letters, modulus] what each letter makes of each digit: x -> s x + o, of which none is the identity."""
  letter = np.arange(letters)[:, None]
  return ((1 + letter % (modulus - 1)) * np.arange(modulus)[None] + 1 + letter // 2) % modulus
