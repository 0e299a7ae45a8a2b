"""A bargain in which each side has an adviser: who says how much to hold out for, and who finds the words.

    adviser `F124` -> h | first `F124` h -> f | rival `S421` f -> l | second `S421` f l -> y

An adviser reads what its side knows and says a word before each move, which its bargainer alone hears: `l`,
`m`, `h`, `t` for at least 3, 4, 5 and 6 of 7. A bargainer that does as it is told accepts an offer that is
worth so much to it, and else asks for the things that are worth just this: that is the expert, whose advisers
say any word. Both of a side are paid what the side gets; a word that is no advice loses, as an illegal move.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.games import bargain as bargains
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask, told
from rlx.envs.turns import index_in, said, with_end
from rlx.envs.worlds import tables
from rlx.types import Batch

_ADVICE, _LEAST = 'lmht', (3, 4, 5, 6)


def advised(*, moves: int, discount: float, heard: bool) -> SeatTask:
  """The bargain of `tables.bargain`, of four seats.

  Args:
    moves: of the two bargainers together; at least 2.
    discount: of what is shared, for each offer that was refused.
    heard: whether bargainers hear their advisers; else they hear a word that is drawn by chance.
  """
  world = tables.bargain(moves=moves, discount=discount)
  game, alphabet = world.game, world.alphabet + _ADVICE
  advice, words = text.characters(_ADVICE, alphabet), jnp.asarray(world.moves)
  least, seats = jnp.array(_LEAST), jnp.arange(4)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problems = world.sample(key, num, held_out)
    twice = {name: jnp.repeat(problems[name], 2, axis=1) for name in ('prompts', 'prompt_lengths')}
    return {**problems, **twice}

  def start(problem: Batch):
    return {'table': world.start(problem), 'advice': jnp.int32(-1)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    advising, side = state['advice'] < 0, state['table']['moved'] % 2
    word = said(action, length, 2)
    number, known = index_in(advice, word[0])
    is_advice = known & (word[1] == text.PAD_ID)
    number = number if heard else jax.random.randint(key, (), 0, len(_LEAST))
    moved = world.act(state['table'], action, length, key)
    lost = jnp.where(is_advice, 0, game.forfeited(side))
    speaker = 2 * side + jnp.where(advising, 0, 1)
    hears = jnp.where(advising, seats == speaker + 1, seats != speaker)
    observations, lengths = told(jnp.where(advising, advice[number], moved.observations[0, 0])[None], hears)
    table = jax.tree.map(lambda old, new: jnp.where(advising, old, new), state['table'], moved.state)
    return SeatReply(
        state={'table': table, 'advice': jnp.where(advising, number, -1)}, observations=observations,
        lengths=lengths, rewards=jnp.repeat(jnp.where(advising, lost, moved.rewards), 2),
        ended=jnp.where(advising, ~is_advice, moved.ended),
        understood=jnp.where(advising, is_advice, moved.understood),
        info={
            SUCCESS: jnp.where(advising, 0, moved.rewards.sum() > 0).astype(jnp.float32),
            'legal': jnp.where(advising, is_advice, moved.info['legal']).astype(jnp.float32),
            'moves': table['moved'].astype(jnp.float32),
        },
    )

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    any_word = advice[jax.random.randint(key, (), 0, len(_LEAST))]
    move = obeyed(state['table']['game'], state['table']['moved'] % 2, least[state['advice']])
    return with_end(jnp.where(state['advice'] < 0, any_word, words[move])[None], 1, 2)

  return SeatTask(
      alphabet=alphabet, prompt_columns=world.prompt_columns, answer_columns=2, sample=sample,
      seats=('adviser', 'first', 'rival', 'second'), order=(0, 1, 2, 3), observation_columns=1, start=start,
      act=act, expert=expert,
  )


def obeyed(state, side: jax.Array, least: jax.Array) -> jax.Array:
  """[] int32: the move of a bargainer that holds out for so much: it accepts, or asks for just this."""
  worth = state['worth'][side]
  offered, there = bargains.pending(state, side)
  return jnp.where(
      there & (offered @ worth >= least), bargains.ACCEPT, bargains.asked_for(worth, least)
  ).astype(jnp.int32)
