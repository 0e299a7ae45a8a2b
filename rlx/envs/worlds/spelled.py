"""Long actions: a world whose actions are single letters, each said as a word of several tokens.

    `H>:Ase` -> `east` -> `:Bws` -> ...        the rooms of `rooms.py`, `words={'e': 'east', ...}`

Nothing else changes: what is no word is not understood. So that turns and tokens can be told apart, where
credit, values or budgets are counted by the one or the other.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import Reply, TurnTask, said, with_end


def spelled(*, task, words: Mapping[str, str]) -> TurnTask:
  """Episodes of a world, whose actions are spelled.

  Args:
    task: makes the world; in a config a section with its `name`. Its actions are single letters.
    words: letter -> the word that is said in its place; letters that have none cannot be said.
  Raises:
    ValueError: no words, a letter that the world does not have, an empty word, or two that are the same.
  """
  world: TurnTask = task()
  strange = [letter for letter in words if len(letter) != 1 or letter not in world.alphabet]
  if not words or strange or '' in words.values() or len(set(words.values())) < len(words):
    raise ValueError(
        f'words={dict(words)}: need different words, one or more, for letters of {world.alphabet!r}; '
        'change them'
    )
  alphabet = world.alphabet + ''.join(sorted(set(''.join(words.values())) - set(world.alphabet)))
  columns = 1 + max(map(len, words.values()))
  letters = text.characters(''.join(words), alphabet)
  lengths = jnp.asarray([len(word) for word in words.values()])
  spelling = jnp.stack([
      jnp.pad(text.characters(word, alphabet), (0, columns - len(word)), constant_values=text.PAD_ID)
      for word in words.values()
  ])

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    same = jnp.all(spelling == said(action, length, columns)[None], axis=1)
    letter = jnp.where(jnp.any(same), letters[jnp.argmax(same)], text.EOS_ID)
    return world.act(state, letter[None], jnp.int32(1), key)

  def expert(state) -> tuple[jax.Array, jax.Array]:
    action, _ = world.expert(state)
    word = jnp.argmax(letters == action[0])
    return with_end(spelling[word], lengths[word], columns)

  return TurnTask(
      alphabet=alphabet, prompt_columns=world.prompt_columns, answer_columns=columns, sample=world.sample,
      observation_columns=world.observation_columns, start=world.start, act=act, expert=expert,
      expert_return=world.expert_return, state_id=world.state_id,
  )
