"""Pages that are found by search and read by looking closer: `Cy?` -> `sa` -> `Cxyw` -> `cl` -> `y` -> `z` ->
`4` -> `=4`.

Images are grids of symbols here: a page is a title and some regions, and in each region there is a mark with
small print, a digit. A search shows the page that fits the word best among those that it has not shown, from
afar: title and marks. `c` and a region crops the page that was found last to it, which shows its mark; `z`
zooms into what was cropped, which shows the small print. The prompt names a title and a mark, the digit
beside it is asked for, and `=` answers and ends the episode. Pages are not indexed under their titles: which
word finds which page first is the same for all problems, and has to be learnt.
"""

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.rankings import ndcg
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _TITLES, _WORDS = '!?scz=', 'ABCDEFGH', 'abdefghi'
_SYMBOLS, _REGIONS, _DIGITS = 'wxyv', 'klmn', '01234567'
_SEED = 0  # of what words find


def pages(*, titles: int, regions: int, digits: int, layouts: int, held_out_share: float) -> TurnTask:
  """Episodes of search and reading; the reward is 1 for the right digit, whatever was searched for.

  `info` has `ndcg`, of the pages in the order in which searches have shown them, of which the one that is
  asked about is relevant; `searches`, how many pages that were, and `looks`, crops and zooms.

  Args:
    titles: pages there are, and words to search for, in 2..8.
    regions: of a page, in 1..4.
    digits: that small print can be, in 2..8.
    layouts: how many ways of where marks stand and what the small print is; nothing tells which one it is.
    held_out_share: in (0, 1), the part of all problems (layout, title, mark) that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(2, len(_TITLES), titles=titles)
  between(1, len(_REGIONS), regions=regions)
  between(2, len(_DIGITS), digits=digits)
  between(1, 10**6, layouts=layouts)
  pieces = (_TITLES[:titles], _WORDS[:titles], _SYMBOLS[:regions], _REGIONS[:regions], _DIGITS[:digits])
  alphabet = _MARKS + ''.join(pieces)
  nothing, asked, searches, crops, zooms, answers = text.characters(_MARKS, alphabet)
  names, words, symbols, places, prints = (text.characters(piece, alphabet) for piece in pieces)
  ranks = _ranks(titles)

  rng = np.random.default_rng(_SEED)
  shuffled = lambda *shape: rng.permuted(np.broadcast_to(np.arange(shape[-1]), shape), axis=-1)
  contents = {
      'marks': shuffled(layouts, titles, regions),
      'small': rng.integers(digits, size=(layouts, titles, regions)),  # print
      'tries': shuffled(layouts, titles),  # an order in which the expert searches
  }
  contents = {name: jnp.asarray(x, jnp.int32) for name, x in contents.items()}

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=layouts * titles * regions, held_out=held_out, held_out_share=held_out_share
    )
    which, number = number % layouts, number // layouts
    title, mark = number % titles, number // titles
    prompts = jnp.stack([names[title], symbols[mark], jnp.broadcast_to(asked, (num,))], axis=1)
    return {
        **{name: x[which] for name, x in contents.items()}, 'title': title, 'mark': mark, 'prompts': prompts,
        'prompt_lengths': jnp.full(num, 3),
    }

  def start(problem: Batch):
    known = {name: problem[name] for name in ('marks', 'small', 'tries', 'title', 'mark')}
    return {
        **known, 'tried': jnp.zeros(titles, bool), 'shown': jnp.zeros(titles, bool),
        'relevant': jnp.zeros(titles, jnp.int32),  # by place
        'page': jnp.int32(-1), 'region': jnp.int32(-1), 'zoomed': jnp.bool_(False), 'looks': jnp.float32(0),
    }

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    said_word = said(action, length, 3)
    (word, is_word), (region, is_region), (digit, is_digit) = (
        index_in(tokens, said_word[1]) for tokens in (words, places, prints)
    )
    alone, two = said_word[1] == text.PAD_ID, said_word[2] == text.PAD_ID
    asks, takes = (said_word[0] == searches) & is_word & two, (said_word[0] == crops) & is_region & two
    enlarges, ends = (said_word[0] == zooms) & alone, (said_word[0] == answers) & is_digit & two
    place = state['shown'].sum()
    page = jnp.argmin(jnp.where(state['shown'], titles, ranks[word]))
    finds = asks & (place < titles)
    cuts, sees = takes & (state['page'] >= 0), enlarges & (state['region'] >= 0)
    hit = jnp.where(finds & (page == state['title']), 1, 0)
    after = {
        **state, 'tried': state['tried'].at[word].max(asks), 'shown': state['shown'].at[page].max(finds),
        'relevant': state['relevant'].at[jnp.minimum(place, titles - 1)].max(hit),
        'page': jnp.where(finds, page, state['page']),
        'region': jnp.where(finds, -1, jnp.where(cuts, region, state['region'])),
        'zoomed': ~finds & ~cuts & (state['zoomed'] | sees), 'looks': state['looks'] + (cuts | sees),
    }
    here, there = after['page'], after['region']
    from_afar = jnp.concatenate([names[here][None], symbols[after['marks'][here]]])
    near = jnp.where(cuts, symbols[after['marks'][here, there]], prints[after['small'][here, there]])
    one = jnp.where(cuts | sees, near, nothing)
    observation = jnp.where(finds, from_afar, jnp.zeros_like(from_afar).at[0].set(one)).astype(jnp.int32)
    right = state['small'][state['title'], jnp.argmax(state['marks'][state['title']] == state['mark'])]
    solved = (ends & (digit == right)).astype(jnp.float32)
    info = {
        SUCCESS: solved, 'ndcg': ndcg(after['relevant'], jnp.int32(1)), 'looks': after['looks'],
        'searches': after['shown'].sum().astype(jnp.float32),
    }
    understood = asks | takes | enlarges | ends
    return Reply(after, observation, jnp.where(finds, regions + 1, 1), solved, ends, understood, info)

  def expert(state):
    """Tries words until the page is there, and then looks; it does not know what words find."""
    word = state['tries'][jnp.argmin(state['tried'][state['tries']])]
    where = jnp.argmax(state['marks'][state['title']] == state['mark'])
    pad = jnp.int32(text.PAD_ID)
    search, crop = jnp.stack([searches, words[word]]), jnp.stack([crops, places[where]])
    zoom, print_ = jnp.stack([zooms, pad]), prints[state['small'][state['title'], where]]
    found, cropped = state['page'] == state['title'], state['region'] == where
    read = jnp.where(state['zoomed'], jnp.stack([answers, print_]), zoom)
    tokens = jnp.where(found, jnp.where(cropped, read, crop), search)
    return with_end(tokens, jnp.where(tokens[1] == pad, 1, 2), 3)

  return TurnTask(
      alphabet=alphabet, prompt_columns=3, answer_columns=3, sample=sample, observation_columns=regions + 1,
      start=start, act=act, expert=expert, expert_return=1.0,
  )


def _ranks(titles: int) -> jax.Array:
  """[words, titles]: at which place a word finds each page; each page is the first one for one of them."""
  rng = np.random.default_rng(_SEED)
  scores = rng.random((titles, titles))
  scores[np.arange(titles), rng.permutation(titles)] = -1
  return jnp.asarray(scores.argsort(axis=1).argsort(axis=1), jnp.int32)
