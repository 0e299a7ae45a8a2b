"""A report is drafted from linked pages, which are found by search and by clicks, with thoughts in between.

    A1D0 -> `1sA` :e | `1ce` :bf | `0cb` :da | `0w` | `0sD` :d | `0cd` :fb | `0w` | `=`

The prompt names a topic and a number of links for each section: the section is to say what stands on the page
that lies so many links behind that of the topic. `s` searches for a topic and gets its page, `c` clicks on a
page that was found, and shows where its two links lead; the first one leads on, the other one astray. `w`
drafts the next section: it is written from the page that was opened last, beside the conversation, and what
it says is never read. With it the exploration ends, and the next section's begins with nothing found. `=`
hands the report in. A digit in front of a call is a thought: the world does not read it. The expert thinks
how many links are still to follow.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _PAGES, _TOPICS, _DIGITS = ':!scw=', 'abdefghij', 'ABDEFGHIJ', '0123'
_SEED = 0  # of what stands where: the same number of it is the same
_BODY = 1000  # what a page says is a number below
_WHIMS = 32  # turns in which the expert can stray; later ones are straight


def linked_pages(
    *, num_pages: int, max_links: int, sections: int, webs: int, stray: float, held_out_share: float
) -> TurnTask:
  """Reports of some sections; the reward is 1 where each says what the right page says.

  Args:
    num_pages: N, in 3..9; there are as many topics.
    max_links: to be followed in a section at most, in 0..3 and below N - 1.
    sections: S, in 1..4.
    webs: how many there are, each with other topics, links and contents; nothing tells which one it is.
    stray: the chance that the expert makes a call that is not needed, in [0, 0.5]: a search again, or the
      wrong link.
    held_out_share: in (0, 1), the part of all problems (web, sections) that is never trained on.
  Raises:
    ValueError: an argument out of its range.
  """
  between(3, len(_PAGES), num_pages=num_pages)
  between(0, min(len(_DIGITS) - 1, num_pages - 2), max_links=max_links)
  between(1, 4, sections=sections)
  between(0, 0.5, stray=stray)
  alphabet = _MARKS + _PAGES[:num_pages] + _TOPICS[:num_pages] + _DIGITS[: max_links + 1]
  fine, wrong, searches, clicks, drafts, submits = text.characters(_MARKS, alphabet)
  kinds = (_PAGES[:num_pages], _TOPICS[:num_pages], _DIGITS[: max_links + 1])
  names, topics, digits = (text.characters(kind, alphabet) for kind in kinds)
  per_section = num_pages * (max_links + 1)

  def contents(number):
    topic_key, link_key, astray_key, body_key = jax.random.split(
        jax.random.fold_in(jax.random.key(_SEED), number), 4
    )
    circle = jax.random.permutation(link_key, num_pages)
    links = jnp.zeros(num_pages, jnp.int32).at[circle].set(jnp.roll(circle, -1))
    # Never to a page that a way through this one comes to: further on in the circle than any leads.
    further = jax.random.randint(astray_key, (num_pages,), max_links + 1, num_pages)
    places = jnp.arange(num_pages)
    astray = jnp.zeros(num_pages, jnp.int32).at[circle].set(circle[(places + further) % num_pages])
    return {
        'found': jax.random.permutation(topic_key, num_pages), 'links': links, 'astray': astray,
        'bodies': jax.random.permutation(body_key, _BODY)[:num_pages],
    }

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num, num_problems=webs * per_section**sections, held_out=held_out, held_out_share=held_out_share
    )
    web, asked = number % webs, number // webs
    asked = asked[:, None] // per_section ** jnp.arange(sections)[None] % per_section
    topic, hops = asked % num_pages, asked // num_pages
    web = jax.vmap(contents)(web)
    at = jnp.take_along_axis(web['found'], topic, axis=1)
    ways = [at]
    for hop in range(max_links):
      at = jnp.where(hop < hops, jnp.take_along_axis(web['links'], at, axis=1), at)
      ways.append(at)
    whim_keys = jax.vmap(lambda one: jax.random.fold_in(jax.random.key(_SEED + 1), one))(number)
    return {
        **web, 'topic': topic, 'hops': hops, 'ways': jnp.stack(ways, axis=2),
        'whims': jax.vmap(lambda one: jax.random.bernoulli(one, float(stray), (_WHIMS,)))(whim_keys),
        'prompts': jnp.stack([topics[topic], digits[hops]], axis=2).reshape(num, -1),
        'prompt_lengths': jnp.full(num, 2 * sections),
    }

  def start(problem: Batch):
    known = ('found', 'links', 'astray', 'bodies', 'topic', 'hops', 'ways', 'whims')
    nothing = jnp.zeros(num_pages, bool)
    return {
        **{name: problem[name] for name in known}, 'at': jnp.int32(-1), 'seen': nothing, 'opened': nothing,
        'report': jnp.full(sections, -1, jnp.int32), 'drafted': jnp.int32(0), 'calls': jnp.int32(0),
        'strayed': jnp.bool_(False),
    }

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 4)
    thinks = index_in(digits, word[0])[1]
    word = jnp.where(thinks, word[1:], jnp.where(word[3] == text.PAD_ID, word[:3], -1))
    (topic, is_topic), (page, is_page) = index_in(topics, word[1]), index_in(names, word[1])
    alone, pair = word[1] == text.PAD_ID, word[2] == text.PAD_ID
    found = (word[0] == searches) & is_topic & pair
    opens = (word[0] == clicks) & is_page & pair & state['seen'][page]
    writes = (word[0] == drafts) & alone & (state['at'] >= 0) & (state['drafted'] < sections)
    ends = (word[0] == submits) & alone
    hit = state['found'][topic]
    seen = state['seen'].at[hit].max(found).at[state['links'][page]].max(opens)
    seen = seen.at[state['astray'][page]].max(opens) & ~writes
    report = state['report'].at[state['drafted']].set(
        jnp.where(writes, state['bodies'][state['at']], state['report'][state['drafted']])
    )
    # Whether it was needed: only the expert asks, who does not stray twice in a row.
    needless = (found & jnp.any(state['seen'])) | (opens & ~jnp.any(state['ways'][_section(state)] == page))
    after = {
        **state, 'seen': seen, 'opened': state['opened'].at[page].max(opens) & ~writes, 'report': report,
        'at': jnp.where(opens, page, jnp.where(writes, -1, state['at'])).astype(jnp.int32),
        'drafted': state['drafted'] + writes, 'calls': state['calls'] + ~ends, 'strayed': needless,
    }
    solved = (ends & jnp.all(state['report'] == state['bodies'][state['ways'][:, -1]])).astype(jnp.float32)
    pad = jnp.int32(text.PAD_ID)
    shown = jnp.stack([fine, names[state['links'][page]], names[state['astray'][page]]])
    told = jnp.where(opens, shown, jnp.stack([fine, names[hit], pad]))
    told = jnp.where(found | opens, told, jnp.stack([wrong, pad, pad])).astype(jnp.int32)
    understood = found | opens | writes | ends
    return Reply(
        after, told, jnp.where(opens, 3, jnp.where(found, 2, jnp.where(writes, 0, 1))), solved, ends,
        understood, {SUCCESS: solved, 'calls': after['calls'].astype(jnp.float32)},
    )

  def _section(state):
    return jnp.minimum(state['drafted'], sections - 1)

  def expert(state):
    """The next call that is needed, or by a whim one that is not: a search again, or the link astray."""
    section, at = _section(state), state['at']
    way, hops = state['ways'][section], state['hops'][section]
    on_way = jnp.arange(max_links + 1) <= hops
    # The furthest page of the way that was opened; behind it goes the next one, which was found with it.
    reached = jnp.max(jnp.where(on_way & state['opened'][way], jnp.arange(max_links + 1), -1))
    due = way[jnp.minimum(reached + 1, hops)]
    search = jnp.stack([searches, topics[state['topic'][section]]])
    click = lambda page: jnp.stack([clicks, names[page]])
    draft = jnp.stack([drafts, jnp.int32(text.PAD_ID)])
    begun, there = jnp.any(state['seen']), at == way[-1]
    strays = begun & ~state['strayed'] & state['whims'][jnp.minimum(state['calls'], _WHIMS - 1)]
    strays &= state['calls'] < _WHIMS
    call = jnp.where(begun, jnp.where(there, draft, click(due)), search)
    call = jnp.where(strays, jnp.where(at >= 0, click(state['astray'][at]), search), call)
    left = hops - jnp.minimum(reached + (begun & ~there & ~strays), hops)
    left = jnp.where(reached < 0, hops, left)
    word = jnp.concatenate([digits[left][None], call])
    length = jnp.where(call[1] == text.PAD_ID, 2, 3)
    over = state['drafted'] == sections
    return with_end(jnp.where(over, jnp.pad(submits[None], (0, 2)), word), jnp.where(over, 1, length), 4)

  return TurnTask(
      alphabet=alphabet, prompt_columns=2 * sections, answer_columns=4, sample=sample, observation_columns=3,
      start=start, act=act, expert=expert, expert_return=1.0,
  )
