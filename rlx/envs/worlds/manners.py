"""A user who wants things said in their own manner, and corrects: `a?` -> `ax` -> `!zb?` -> `bz` -> `.c?` ->
...

Each request is a letter, to be answered by the letter and a manner. Which manner is wanted nobody says, until
an answer has another: then the user names it. What was learnt from one correction holds for the rest of the
episode.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, compact, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _LETTERS, _MANNERS = '?.!', 'abcdefgh', 'xyzuvw'


def manners(*, num_letters: int, num_manners: int, requests: int, held_out_share: float) -> TurnTask:
  """Episodes of `requests` requests; each is worth 1 / requests, if it is answered right at once.

  Args:
    num_letters: in 2..8.
    num_manners: in 2..6; who guesses the first one loses 1 - 1 / num_manners of a request.
    requests: of an episode, in 1..6.
    held_out_share: in (0, 1), the part of all problems (letters, manner) that is never trained on.
  """
  between(2, 8, num_letters=num_letters)
  between(2, 6, num_manners=num_manners)
  between(1, 6, requests=requests)
  alphabet = _MARKS + _LETTERS[:num_letters] + _MANNERS[:num_manners]
  marks = text.characters(_MARKS, alphabet)
  letters, ways = (text.characters(x, alphabet) for x in (_LETTERS[:num_letters], _MANNERS[:num_manners]))
  powers = np.array([num_letters**i for i in range(requests)], np.int32)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=num_manners * num_letters**requests, held_out=held_out,
        held_out_share=held_out_share,
    )
    manner, number = number % num_manners, number // num_manners
    asked = (number[:, None] // powers[None] % num_letters).astype(jnp.int32)
    prompts = jnp.stack([letters[asked[:, 0]], jnp.broadcast_to(marks[0], (num,))], axis=1)
    return {'manner': manner, 'asked': asked, 'prompts': prompts, 'prompt_lengths': jnp.full(num, 2)}

  def start(problem: Batch):
    known = {'manner': problem['manner'], 'asked': problem['asked']}
    return {**known, 'request': jnp.int32(0), 'right': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 3)
    _, is_letter = index_in(letters, word[0])
    way, is_way = index_in(ways, word[1])
    understood = is_letter & is_way & (word[2] == text.PAD_ID)
    right = understood & (word[0] == letters[state['asked'][state['request']]]) & (way == state['manner'])
    following = state['request'] + understood
    after = {**state, 'request': jnp.minimum(following, requests - 1), 'right': state['right'] + right}
    ended = following >= requests
    request = letters[state['asked'][after['request']]]
    tokens = jnp.stack([jnp.where(right, marks[1], marks[2]), ways[state['manner']], request, marks[0]])
    shown = jnp.stack([understood, understood & ~right, jnp.bool_(True), jnp.bool_(True)])
    observation, told = compact(tokens, shown)
    share = after['right'] / requests
    return Reply(
        after, observation, told, right / requests, ended, understood,
        {SUCCESS: (share == 1).astype(jnp.float32), 'right': share.astype(jnp.float32)},
    )

  def expert(state):
    request = state['asked'][state['request']]
    return with_end(jnp.stack([letters[request], ways[state['manner']]]), jnp.int32(2), 3)

  return TurnTask(
      alphabet=alphabet, prompt_columns=2, answer_columns=3, sample=sample, observation_columns=4,
      start=start, act=act, expert=expert, expert_return=1.0,
  )
