"""Two seats hold the halves of what is asked, and talk is not free.

    left `La3b1c0?b` -> a3b1c0 | right `Ra2b0c2?b` a3b1c0 -> =10
    left `La3b1c0?b` -> 1      | right `Ra2b0c2?b` 1 -> =10           the same, told in a word

Of each key the left holds the first digit, and the right the second. The seats speak in turn: a message,
which the other reads, or `=` and both digits, which ends the episode. Both are paid 1 for the right answer,
less `cost` for each token of a message.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask
from rlx.envs.turns import index_in, said, with_end
from rlx.errors import at_least, between
from rlx.types import Batch

_MARKS, _KEYS, _DIGITS = 'LR?=', 'abcd', '0123'


def exchange(*, num_keys: int, cost: float, wordy: float, held_out_share: float) -> SeatTask:
  """Questions of which each seat can answer a half.

  Args:
    num_keys: K in 2..4, of which one is asked for.
    cost: of a token of a message, its end token aside; not below 0.
    wordy: the chance that the expert tells all it knows, 2K tokens, and not the digit alone. With 0 it gets
      1 - cost, the most that can be had.
    held_out_share: in (0, 1), the part of all problems that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(2, len(_KEYS), num_keys=num_keys)
  at_least(0, cost=cost)
  between(0, 1, wordy=wordy)
  alphabet, message = _MARKS + _KEYS[:num_keys] + _DIGITS, 2 * num_keys
  marks, keys, digits = (text.characters(x, alphabet) for x in (_MARKS, _KEYS[:num_keys], _DIGITS))
  base = len(_DIGITS)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=num_keys * base ** (2 * num_keys), held_out=held_out,
        held_out_share=held_out_share,
    )
    asked, held = number % num_keys, number // num_keys
    facts = held[:, None] // base ** jnp.arange(2 * num_keys)[None] % base
    facts = facts.reshape(num, 2, num_keys)
    table = _interleaved(jnp.broadcast_to(keys, facts.shape), digits[facts])
    first = jnp.broadcast_to(marks[:2, None], (num, 2, 1))
    last = jnp.stack([jnp.broadcast_to(marks[2], (num,)), keys[asked]], axis=1)
    prompts = jnp.concatenate([first, table, jnp.broadcast_to(last[:, None], (num, 2, 2))], axis=2)
    lengths = jnp.full((num, 2), prompts.shape[2], jnp.int32)
    return {'facts': facts, 'asked': asked, 'prompts': prompts.astype(jnp.int32), 'prompt_lengths': lengths}

  def start(problem: Batch):
    return {
        'facts': problem['facts'], 'asked': problem['asked'], 'spoken': jnp.int32(0), 'tokens': jnp.int32(0)
    }

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    word = said(action, length, message + 1)
    count = jnp.sum(word != text.PAD_ID)
    answers = word[0] == marks[3]
    is_message = ~answers & (count > 0) & (word[message] == text.PAD_ID)
    (left, is_left), (right, is_right) = (index_in(digits, word[i]) for i in (1, 2))
    is_answer = answers & is_left & is_right & (count == 3)
    wanted = state['facts'][:, state['asked']]
    solved = is_answer & (left == wanted[0]) & (right == wanted[1])
    spent = jnp.where(answers, 0, count)
    after = {**state, 'spoken': state['spoken'] + 1, 'tokens': state['tokens'] + spent}
    reward = solved - cost * spent
    hears = (jnp.arange(2) != state['spoken'] % 2) & is_message
    return SeatReply(
        state=after, observations=jnp.broadcast_to(word[:message], (2, message)),
        lengths=jnp.where(hears, count, 0), rewards=jnp.broadcast_to(reward, 2).astype(jnp.float32),
        ended=answers, understood=is_answer | is_message,
        info={SUCCESS: solved.astype(jnp.float32), 'tokens': after['tokens'].astype(jnp.float32)},
    )

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    known, asked = digits[state['facts']], state['asked']
    everything, alone = _interleaved(keys, known[0]), jnp.pad(known[0, asked][None], (0, message - 1))
    tells_all = jax.random.bernoulli(key, wordy)
    told = jnp.where(tells_all, everything, alone)
    answer = jnp.pad(jnp.concatenate([marks[3][None], known[:, asked]]), (0, message - 3))
    speaks = state['spoken'] == 0
    length = jnp.where(speaks, jnp.where(tells_all, message, 1), 3)
    return with_end(jnp.where(speaks, told, answer), length, message + 1)

  return SeatTask(
      alphabet=alphabet, prompt_columns=message + 3, answer_columns=message + 1, sample=sample,
      seats=('left', 'right'), order=(0, 1), observation_columns=message, start=start, act=act, expert=expert,
  )


def _interleaved(first: jax.Array, second: jax.Array) -> jax.Array:
  """[..., 2K] of two arrays [..., K], one after the other, place by place."""
  return jnp.stack([first, second], axis=-1).reshape(*first.shape[:-1], -1)
