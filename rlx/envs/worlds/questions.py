"""Twenty questions: something is thought of, questions find out what, and each costs: `010?` -> `b` -> `y` ->
`=5`.

There are 2**bits things, and a letter asks for a bit of the one that is meant; the prompt says which answers
are the other way round. Further letters ask for what is the same for all. `=` and a thing is the guess, which
ends the episode. So the least number of questions is `bits`, and what each state is worth is known.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import at_least, between
from rlx.types import Batch

_MARKS, _THINGS, _LETTERS = '?=yn!', '0123456789ABCDEF', 'abcdefgh'


def questions(*, bits: int, decoys: int, cost: float, held_out_share: float) -> TurnTask:
  """Episodes of questions and one guess; the reward is 1 for the right one, less `cost` for each question.

  Args:
    bits: of a thing, in 1..4; so many questions are needed.
    decoys: letters whose answer tells nothing.
    cost: of a question that is answered, in [0, 1 / bits).
    held_out_share: in (0, 1), the part of all problems (thing, answers the other way round) that is never
      trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(1, 4, bits=bits)
  at_least(0, decoys=decoys, cost=cost)
  if bits + decoys > len(_LETTERS) or cost * bits >= 1:
    raise ValueError(
        f'bits={bits}, decoys={decoys}, cost={cost}: at most {len(_LETTERS)} letters, and cost * bits below 1'
    )
  things, letters = _THINGS[: 2**bits], _LETTERS[: bits + decoys]
  digits = ''.join(sorted({*things, '0', '1'}))
  alphabet = _MARKS + letters + digits
  token = lambda character: text.characters(character, alphabet)[0]
  asks, names = text.characters(letters, alphabet), text.characters(things, alphabet)
  places = jnp.arange(bits)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=4**bits, held_out=held_out, held_out_share=held_out_share
    )
    thing, flips = number % 2**bits, number // 2**bits
    shown = text.characters('01', alphabet)[flips[:, None] >> places[None] & 1]
    prompts = jnp.concatenate([shown, jnp.full((num, 1), token('?'))], axis=1).astype(jnp.int32)
    return {'thing': thing, 'flips': flips, 'prompts': prompts, 'prompt_lengths': jnp.full(num, bits + 1)}

  def start(problem: Batch):
    return {'thing': problem['thing'], 'flips': problem['flips'], 'asked': jnp.zeros(bits + decoys, bool)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 3)
    letter, is_letter = index_in(asks, word[0])
    thing, is_thing = index_in(names, word[1])
    is_question = is_letter & (word[1] == text.PAD_ID)
    is_guess = (word[0] == token('=')) & is_thing & (word[2] == text.PAD_ID)
    bit = (state['thing'] ^ state['flips']) >> jnp.minimum(letter, bits - 1) & 1
    yes = (bit == 1) & (letter < bits)
    right = is_guess & (thing == state['thing'])
    answer = jnp.where(is_question, jnp.where(yes, token('y'), token('n')), token('!'))
    after = {**state, 'asked': state['asked'].at[letter].max(is_question)}
    return Reply(
        after, answer[None].astype(jnp.int32), jnp.int32(1),
        right.astype(jnp.float32) - cost * is_question, is_guess, is_question | is_guess,
        {SUCCESS: right.astype(jnp.float32), 'questions': after['asked'].sum().astype(jnp.float32)},
    )

  def expert(state):
    missing = ~state['asked'][:bits]
    guess = jnp.stack([token('='), names[state['thing']]])
    question = jnp.stack([asks[jnp.argmax(missing)], jnp.int32(text.PAD_ID)])
    asking = jnp.any(missing)
    return with_end(jnp.where(asking, question, guess), jnp.where(asking, 1, 2), 3)

  return TurnTask(
      alphabet=alphabet, prompt_columns=bits + 1, answer_columns=3, sample=sample, observation_columns=1,
      start=start, act=act, expert=expert, expert_return=1 - cost * bits,
  )
