"""A user who is worried, and replies that fit or do not: `1a?` -> `x` -> `2b?` -> `z` -> ...

The user has a mood, a number, and shows by a letter what they need now. To each need one kind of reply is
right, the same for all users; a right one lifts the mood by one, another lowers it, or, with `patience`,
sometimes leaves it. When a user forgives is a matter of the user and the turn, not of chance: the same
dialogue has the same score. At the top the episode has succeeded, at the bottom the user leaves. Each turn
earns what the mood gains, so that all of an episode is how far it has risen.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _NEEDS, _REPLIES, _DIGITS = '?!', 'abcdef', 'uvwxyz', '0123456789'
_SEED = 0  # of which reply is right for which need


def counsel(*, moods: int, needs: int, replies: int, patience: float, held_out_share: float) -> TurnTask:
  """Episodes with a user; mood goes from its beginning to 0 or `moods`, and is worth 1 / moods a step.

  Args:
    moods: the top, in 2..9; users begin in 1..moods - 1.
    needs: in 1..6.
    replies: kinds of them, in 2..6.
    patience: share of turns in which a wrong reply does not lower the mood: the higher, the easier the user.
    held_out_share: in (0, 1), the part of all problems (first mood and need, and what follows) that is never
      trained on.
  """
  between(2, 9, moods=moods)
  between(1, 6, needs=needs)
  between(2, 6, replies=replies)
  between(0, 1, patience=patience)
  alphabet = _MARKS + _NEEDS[:needs] + _REPLIES[:replies] + _DIGITS[: moods + 1]
  marks, shown = text.characters(_MARKS, alphabet), text.characters(_NEEDS[:needs], alphabet)
  spoken, levels = (text.characters(x, alphabet) for x in (_REPLIES[:replies], _DIGITS[: moods + 1]))
  right_of = jax.random.randint(jax.random.key(_SEED), (needs,), 0, replies)
  histories = 997  # orders in which needs come

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=(moods - 1) * histories, held_out=held_out, held_out_share=held_out_share
    )
    mood, history = 1 + number % (moods - 1), number // (moods - 1)
    need = jax.vmap(lambda one: _need(one, jnp.int32(0)))(history)
    prompts = jnp.stack([levels[mood], shown[need], jnp.broadcast_to(marks[0], (num,))], axis=1)
    return {'mood': mood, 'history': history, 'prompts': prompts, 'prompt_lengths': jnp.full(num, 3)}

  def _need(history, turn):
    key = jax.random.fold_in(jax.random.key(_SEED + 1), history * 64 + turn)
    return jax.random.randint(key, (), 0, needs)

  def _forgives(history, turn):
    key = jax.random.fold_in(jax.random.key(_SEED + 2), history * 64 + turn)
    return jax.random.bernoulli(key, patience)

  def start(problem: Batch):
    history = problem['history']
    need = _need(history, jnp.int32(0))
    return {'mood': problem['mood'], 'history': history, 'need': need, 'turn': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    reply, known = index_in(spoken, word[0])
    understood = known & (word[1] == text.PAD_ID)
    right = understood & (reply == right_of[state['need']])
    hurt = understood & ~right & ~_forgives(state['history'], state['turn'])
    mood = state['mood'] + right - hurt
    turn = state['turn'] + understood
    after = {**state, 'mood': mood, 'turn': turn, 'need': _need(state['history'], turn)}
    ended = understood & ((mood >= moods) | (mood <= 0))
    sign = jnp.where(understood, marks[0], marks[1])
    observation = jnp.stack([levels[mood], shown[after['need']], sign]).astype(jnp.int32)
    gain = (mood - state['mood']) / moods
    happy = (mood >= moods).astype(jnp.float32)
    info = {SUCCESS: happy, 'mood': mood / moods}
    return Reply(after, observation, jnp.int32(3), gain, ended, understood, info)

  def expert(state):
    return with_end(spoken[right_of[state['need']]][None], jnp.int32(1), 2)

  return TurnTask(
      alphabet=alphabet, prompt_columns=3, answer_columns=2, sample=sample, observation_columns=3,
      start=start, act=act, expert=expert, expert_return=1 - (moods / 2) / moods,
  )
