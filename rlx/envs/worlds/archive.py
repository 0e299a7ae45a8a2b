"""How much is worth looking up for somebody who answers: pages cost, and some are wrong or not needed.

    planner `?f` -> x | reader `?f` 21 -> 2       two pages were fetched, and they say 2 and 1

Half of the letters mean a digit that never changes, which a reader can know by heart; what the others mean is
drawn anew for each episode and stands in the pages alone. The planner orders 0, 1, .. pages by a word, `v`,
`w`, ..; each page says the right digit with a stated chance, and else another one. The reader gets them and
answers. Both are paid 1 for the right answer, and the planner pays for each page.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask
from rlx.envs.turns import index_in, said, with_end
from rlx.errors import at_least, between
from rlx.types import Batch

_LETTERS, _DIGITS, _PLANS = 'abcdefgh', '0123', 'vwxyz'
_SEED = 0  # of what the settled letters mean


def archive(*, num_letters: int, max_pages: int, reliable: float, cost: float) -> SeatTask:
  """Questions to a reader, for whom a planner fetches pages.

  Args:
    num_letters: in 2..8; the first half of them are settled.
    max_pages: that can be ordered, in 1..4.
    reliable: in [0.25, 1], the chance that a page says the right digit.
    cost: of a page, which the planner pays; not below 0.
  Raises:
    ValueError: an argument out of its range.
  """
  between(2, len(_LETTERS), num_letters=num_letters)
  between(1, len(_PLANS) - 1, max_pages=max_pages)
  between(1 / len(_DIGITS), 1, reliable=reliable)
  at_least(0, cost=cost)
  base, settled = len(_DIGITS), num_letters // 2
  alphabet = '?' + _LETTERS[:num_letters] + _DIGITS + _PLANS[: max_pages + 1]
  letters, digits = text.characters(_LETTERS[:num_letters], alphabet), text.characters(_DIGITS, alphabet)
  plans, asks = text.characters(_PLANS[: max_pages + 1], alphabet), text.characters('?', alphabet)[0]
  by_heart = jax.random.randint(jax.random.key(_SEED), (num_letters,), 0, base)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    del held_out  # what can be asked is known to all
    letter_key, news_key = jax.random.split(key)
    letter = jax.random.randint(letter_key, (num,), 0, num_letters)
    meant = jnp.where(letter < settled, by_heart[letter], jax.random.randint(news_key, (num,), 0, base))
    prompt = jnp.stack([jnp.broadcast_to(asks, (num,)), letters[letter]], axis=1)
    return {
        'letter': letter, 'meant': meant, 'prompts': jnp.stack([prompt, prompt], axis=1),
        'prompt_lengths': jnp.full((num, 2), 2),
    }

  def start(problem: Batch):
    return {
        'letter': problem['letter'], 'meant': problem['meant'], 'planned': jnp.bool_(False),
        'pages': jnp.zeros(max_pages, jnp.int32), 'count': jnp.int32(0),
    }

  def written(meant: jax.Array, key: jax.Array) -> jax.Array:
    """[max_pages] digits that pages say."""
    right_key, other_key = jax.random.split(key)
    right = jax.random.bernoulli(right_key, reliable, (max_pages,))
    others = (meant + jax.random.randint(other_key, (max_pages,), 1, base)) % base
    return jnp.where(right, meant, others)

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    word, planned = said(action, length, 2), state['planned']
    alone = word[1] == text.PAD_ID
    (count, is_plan), (digit, is_digit) = index_in(plans, word[0]), index_in(digits, word[0])
    fits = alone & jnp.where(planned, is_digit, is_plan)
    count = jnp.where(planned, state['count'], count * fits)
    pages = jnp.where(planned, state['pages'], written(state['meant'], key))
    solved = (planned & fits & (digit == state['meant'])).astype(jnp.float32)
    paid = solved - jnp.where(planned, 0.0, cost * count)
    return SeatReply(
        state={**state, 'planned': jnp.bool_(True), 'pages': pages, 'count': count},
        observations=jnp.broadcast_to(digits[pages], (2, max_pages)).astype(jnp.int32),
        lengths=jnp.where(planned, 0, jnp.stack([jnp.int32(0), count])),
        rewards=jnp.stack([paid, solved]), ended=planned | ~fits, understood=fits,
        info={SUCCESS: solved, 'pages': count.astype(jnp.float32)},
    )

  def expert(state, key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Any plan; then what is known by heart, or what most of the pages say, of several the first."""
    plan_key, guess_key = jax.random.split(key)
    any_plan = jax.random.randint(plan_key, (), 0, max_pages + 1)
    there = jnp.arange(max_pages) < state['count']
    said_by = (state['pages'][:, None] == jnp.arange(base)[None]) & there[:, None]
    earlier = jnp.argmax(said_by, axis=0) / (2 * max_pages)  # below 1/2: it decides between equal counts
    most = jnp.argmax(said_by.sum(axis=0) - earlier)
    guess = jax.random.randint(guess_key, (), 0, base)
    read = jnp.where(state['count'] > 0, most, guess)
    answer = jnp.where(state['letter'] < settled, by_heart[state['letter']], read)
    return with_end(jnp.where(state['planned'], digits[answer], plans[any_plan])[None], 1, 2)

  return SeatTask(
      alphabet=alphabet, prompt_columns=2, answer_columns=2, sample=sample, seats=('planner', 'reader'),
      order=(0, 1), observation_columns=max_pages, start=start, act=act, expert=expert,
  )
