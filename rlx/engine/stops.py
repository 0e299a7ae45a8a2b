"""Stop strings: where the text of what is said has just completed one of them, as an automaton over tokens.

Strings do not respect the edges of tokens. So the automaton of Aho and Corasick over the *bytes* of the
strings is run through the bytes of every token of the vocabulary, from each of its states, once: a table
[states, V] of what state a token leads to. In the decoding loop that is one look-up a token. The token that
completes a string stays whole, whatever stands behind the string in it.
"""

from collections.abc import Sequence
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

_MAX_STATES = 250


@dataclasses.dataclass(frozen=True, eq=False)
class Stops:
  """An automaton of stop strings over a vocabulary.

  Attributes:
    table: [states, V] uint8, the state behind a token. State 0 is the beginning, the last one is that of a
      string which is complete; what is said behind it begins anew.
  """

  table: np.ndarray

  def follow(self, states: jax.Array, tokens: jax.Array) -> tuple[jax.Array, jax.Array]:
    """States [N] behind one more token [N] each, and whether it has completed a string."""
    behind = jnp.asarray(self.table)[states, tokens].astype(jnp.int32)
    ended = behind == self.table.shape[0] - 1
    return jnp.where(ended, 0, behind), ended

  def completed(self, tokens: jax.Array) -> jax.Array:
    """[N, T] bool: which tokens of rows, read from their beginnings, complete a string."""
    step = lambda states, column: self.follow(states, column)
    _, ended = jax.lax.scan(step, jnp.zeros(tokens.shape[0], jnp.int32), tokens.T)
    return ended.T


def automaton(strings: Sequence[str], vocabulary: Sequence[bytes]) -> Stops:
  """The automaton of some strings.

  Args:
    strings: at least one, none of them empty.
    vocabulary: [V] the bytes of each token; of a special one, none.
  Raises:
    ValueError: a string is empty, or they are too long together.
  """
  if not strings or not all(isinstance(x, str) and x for x in strings):
    raise ValueError(f'stop={tuple(strings)!r}: strings, none of them empty')
  delta = _of_bytes([string.encode() for string in strings])
  if len(delta) > _MAX_STATES:
    raise ValueError(f'stop={tuple(strings)!r}: {len(delta)} bytes, of at most {_MAX_STATES} in all')
  lengths = np.array([len(word) for word in vocabulary])
  order = np.argsort(-lengths, kind='stable')  # the longest first: those that go on are in front
  sizes, words = lengths[order], [vocabulary[i] for i in order]
  table = np.empty((len(delta), len(words)), np.uint8)
  table[:] = np.arange(len(delta), dtype=np.uint8)[:, None]
  for column in range(int(lengths.max(initial=0))):
    num = int(np.searchsorted(-sizes, -column, side='left'))  # tokens with a byte in this column
    letters = np.array([word[column] for word in words[:num]])
    table[:, :num] = delta[table[:, :num], letters[None]]
  back = np.empty_like(table)
  back[:, order] = table
  return Stops(table=back)


def _of_bytes(strings: Sequence[bytes]) -> np.ndarray:
  """[states, 256] uint16: from the longest beginning of a string that has just been said to the next one; the
  last state is that of a complete one, and stays."""
  begun = sorted({string[:n] for string in strings for n in range(len(string))}, key=len)
  number = {prefix: i for i, prefix in enumerate(begun)}
  delta = np.empty((len(begun) + 1, 256), np.uint16)
  delta[-1] = len(begun)
  for prefix, state in number.items():
    for letter in range(256):
      said = prefix + bytes([letter])
      ends = [said[i:] for i in range(len(said) + 1)]
      is_complete = any(said.endswith(string) for string in strings)
      delta[state, letter] = len(begun) if is_complete else number[next(x for x in ends if x in number)]
  return delta
