"""Something is to be fetched, and it may not be clear which: `xyx>x` -> `?` -> `!3` -> `3`.

The prompt lists the kinds of the things that there are and the kind that is wanted. Where several are of it,
only the user knows which one is meant: `?` asks, at a cost, and the answer names its place. A place fetches,
and ends the episode. To act at once is right where one thing only is of the kind; to ask always costs, but
for what a question is paid (`useful`) that was needed and not asked before.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _PLACES, _KINDS = '>?!#', '123456', 'xyzuvw'


def errand(*, num_things: int, num_kinds: int, cost: float, useful: float, held_out_share: float) -> TurnTask:
  """Episodes of an errand; the reward is 1 for the thing that was meant, less `cost` for each question.

  Args:
    num_things: in 2..6.
    num_kinds: in 2..6.
    cost: of asking, in [0, 1).
    useful: what the first question is paid where it is unclear which thing is meant, in [0, 1]; the cost is
      taken off it.
    held_out_share: in (0, 1), the part of all problems (kinds, thing) that is never trained on.
  """
  between(2, 6, num_things=num_things, num_kinds=num_kinds)
  between(0, 0.999, cost=cost)
  between(0, 1, useful=useful)
  alphabet = _MARKS + _PLACES[:num_things] + _KINDS[:num_kinds]
  token = lambda character: text.characters(character, alphabet)[0]
  places, names = (text.characters(x, alphabet) for x in (_PLACES[:num_things], _KINDS[:num_kinds]))
  powers = np.array([num_kinds**i for i in range(num_things)], np.int32)
  # The share of problems, over all kinds and things, in which another thing is of the kind that is wanted.
  ambiguous = 1 - (1 - 1 / num_kinds) ** (num_things - 1)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=num_things * num_kinds**num_things, held_out=held_out,
        held_out_share=held_out_share,
    )
    meant, number = number % num_things, number // num_things
    kinds = number[:, None] // powers[None] % num_kinds
    wanted = jnp.take_along_axis(kinds, meant[:, None], axis=1)
    mark = jnp.full((num, 1), token('>'))
    prompts = jnp.concatenate([names[kinds], mark, names[wanted]], axis=1).astype(jnp.int32)
    unclear = jnp.sum(kinds == wanted, axis=1) > 1
    lengths = jnp.full(num, num_things + 2)
    return {'meant': meant, 'unclear': unclear, 'kinds': kinds, 'prompts': prompts, 'prompt_lengths': lengths}

  def start(problem: Batch):
    return {**{name: problem[name] for name in ('meant', 'unclear', 'kinds')}, 'asked': jnp.bool_(False)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    place, is_place = index_in(places, word[0])
    short = word[1] == text.PAD_ID
    asks, fetches = short & (word[0] == token('?')), short & is_place
    right = (fetches & (place == state['meant'])).astype(jnp.float32)
    needed, asked = asks & state['unclear'] & ~state['asked'], state['asked'] | asks
    answer = jnp.stack([token('!'), places[state['meant']]])
    nothing = jnp.stack([token('#'), jnp.int32(text.PAD_ID)])
    return Reply(
        {**state, 'asked': asked}, jnp.where(asks, answer, nothing).astype(jnp.int32),
        jnp.where(asks, 2, 1), right - cost * asks + useful * needed, fetches, asks | fetches,
        {
            SUCCESS: right, 'asked': asked.astype(jnp.float32),
            'needless': (asked & ~state['unclear']).astype(jnp.float32),
        },
    )

  def expert(state):
    asking = state['unclear'] & ~state['asked']
    return with_end(jnp.where(asking, token('?'), places[state['meant']])[None], jnp.int32(1), 2)

  return TurnTask(
      alphabet=alphabet, prompt_columns=num_things + 2, answer_columns=2, sample=sample,
      observation_columns=2, start=start, act=act, expert=expert,
      expert_return=1 - (cost - useful) * ambiguous,
  )
