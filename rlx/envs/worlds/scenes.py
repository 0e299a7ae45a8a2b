"""Questions about a picture, of which some need a search, and some a search with a part of the picture.

    `pqpr:v2` -> `=p`                                      what is at place 2 of the picture: no search
    `pqpr:nB` -> `tB` -> `:3` -> `=3`                      a fact about B, which is named: a text search
    `pqpr:f1` -> `c1` -> `:D` -> `tD` -> `>A` -> `tA` -> `:0` -> `=0`    about what place 1 shows

A picture is a grid of symbols, which stands for an image: this is no model of vision. `c` searches with the
crop of a place, and says who is seen there; `t` searches the texts for a name, and finds a fact or, where
somebody goes by another name, that name: the query has to be refined. Who is where, their facts and their
other names are drawn anew for each episode, so that nobody knows them without a search.

The expert does what is needed, and in some episodes first makes a call that nobody needs.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import at_least, between
from rlx.types import Batch

_MARKS, _KINDS, _SYMBOLS, _NAMES, _DIGITS = ':>!ct=', 'vnf', 'pqrs', 'ABCDEF', '012345'
_FACTS = 4  # so many digits are facts
VISUAL, NAMED, SEEN = range(3)  # kinds of questions: no search, text alone, crop and text


def scenes(
    *, places: int, symbols: int, renamed: float, wasteful: float, cost: float, held_out_share: float
) -> TurnTask:
  """Episodes with a picture, two tools and an answer; the reward is 1 for the right one, less the calls.

  Args:
    places: of a picture, in 2..6; as many names there are, each of which is seen at one of them.
    symbols: in 2..4, that places may show.
    renamed: chance in [0, 1] that a name leads to another one.
    wasteful: chance in [0, 1] that the expert begins with a call that is not needed.
    cost: of a call, not below 0.
    held_out_share: in (0, 1), the part of all pictures with a question that is never trained on.
  Returns:
    The world. It tells `calls`, `crops`, `needless`, how many calls were not needed, `crop_needed`, 1 where
    the question needs a crop, `crop_used`, 1 where there was one that was needed, and `crop_idle`, 1 where
    there was a crop that was not.
  """
  between(2, len(_NAMES), places=places)
  between(2, len(_SYMBOLS), symbols=symbols)
  between(0, 1, renamed=renamed, wasteful=wasteful)
  at_least(0, cost=cost)
  alphabet = _MARKS + _KINDS + _SYMBOLS[:symbols] + _NAMES[:places] + _DIGITS[: max(places, _FACTS)]
  fine, other, wrong, crops, searches, answers = text.characters(_MARKS, alphabet)
  kinds, shapes, names = (
      text.characters(x, alphabet) for x in (_KINDS, _SYMBOLS[:symbols], _NAMES[:places])
  )
  number, facts = (text.characters(_DIGITS[:count], alphabet) for count in (places, _FACTS))

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    index_key, *keys = jax.random.split(key, 7)
    index = text.draw_indices(
        index_key, num, num_problems=3 * places * symbols**places, held_out=held_out,
        held_out_share=held_out_share,
    )
    kind, asked, picture = index % 3, index // 3 % places, index // (3 * places)
    picture = picture[:, None] // symbols ** jnp.arange(places)[None] % symbols
    orders = lambda key: jax.vmap(lambda key: jax.random.permutation(key, places))(jax.random.split(key, num))
    prompts = jnp.concatenate([
        shapes[picture], jnp.full((num, 1), fine), kinds[kind][:, None],
        jnp.where(kind == NAMED, names[asked], number[asked])[:, None],
    ], axis=1)
    away = 1 + jax.random.randint(keys[2], (num, places), 0, places - 1)
    is_renamed = jax.random.bernoulli(keys[3], renamed, (num, places))
    itself = jnp.arange(places)[None]
    return {
        'kind': kind, 'asked': asked, 'picture': picture, 'who': orders(keys[0]),
        'fact': jax.random.randint(keys[1], (num, places), 0, _FACTS),
        'leads': jnp.where(is_renamed, (itself + away) % places, itself),
        'wastes': jax.random.bernoulli(keys[4], wasteful, (num,)),
        'strays': jax.random.randint(keys[5], (num,), 0, places),
        'prompts': prompts.astype(jnp.int32), 'prompt_lengths': jnp.full(num, places + 3),
    }

  def start(problem: Batch):
    known = {name: x for name, x in problem.items() if not name.startswith('prompt')}
    return {
        **known, 'calls': jnp.int32(0), 'crops': jnp.int32(0), 'seen': jnp.bool_(False),
        'read': jnp.bool_(False), 'reread': jnp.bool_(False), 'needless': jnp.int32(0),
        'idle': jnp.bool_(False),
    }

  def wanted(state):
    """The name that is searched for first, the one that this leads to, and the right answer's token."""
    name = jnp.where(state['kind'] == NAMED, state['asked'], state['who'][state['asked']])
    last = state['leads'][name]
    shown, fact = shapes[state['picture'][state['asked']]], facts[state['fact'][last]]
    return name, last, jnp.where(state['kind'] == VISUAL, shown, fact)

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 3)
    place, is_place = index_in(number, word[1])
    name, is_name = index_in(names, word[1])
    whole, (first, last, right) = word[2] == text.PAD_ID, wanted(state)
    crop, search, ends = (
        (word[0] == tool) & fits & whole
        for tool, fits in ((crops, is_place), (searches, is_name), (answers, word[1] != text.PAD_ID))
    )
    direct, others = state['leads'][name] == name, names[state['leads'][name]]
    found = jnp.stack([jnp.where(direct, fine, other), jnp.where(direct, facts[state['fact'][name]], others)])
    seen = jnp.stack([fine, names[state['who'][place]]])
    lost = jnp.stack([wrong, jnp.int32(text.PAD_ID)])
    observation = jnp.where(crop, seen, jnp.where(search, found, lost)).astype(jnp.int32)
    sees = crop & (state['kind'] == SEEN) & (place == state['asked']) & ~state['seen']
    reads = search & (state['kind'] != VISUAL) & (name == first) & ~state['read']
    rereads = search & (state['kind'] != VISUAL) & (name == last) & (first != last) & ~state['reread']
    needless = (crop | search) & ~(sees | reads | rereads)
    after = {
        **state, 'calls': state['calls'] + (crop | search), 'crops': state['crops'] + crop,
        'seen': state['seen'] | sees, 'read': state['read'] | reads, 'reread': state['reread'] | rereads,
        'needless': state['needless'] + needless, 'idle': state['idle'] | (crop & ~sees),
    }
    solved = (ends & (word[1] == right)).astype(jnp.float32)
    told = {
        SUCCESS: solved, 'calls': after['calls'], 'crops': after['crops'], 'needless': after['needless'],
        'crop_needed': state['kind'] == SEEN, 'crop_used': after['seen'], 'crop_idle': after['idle'],
    }
    return Reply(
        after, observation, jnp.where(crop | search, 2, 1), solved - cost * (crop | search), ends,
        crop | search | ends, {name: jnp.asarray(x, jnp.float32) for name, x in told.items()},
    )

  def expert(state):
    first, last, right = wanted(state)
    # What is not needed: a crop where the name is told or nothing is asked, another place where one is seen.
    stray = jnp.where(
        (state['kind'] == SEEN) & (state['strays'] == state['asked']), (state['asked'] + 1) % places,
        state['strays'],
    )
    calls = [  # the first that is still to be made
        (state['wastes'] & (state['calls'] == 0), crops, number[stray]),
        ((state['kind'] == SEEN) & ~state['seen'], crops, number[state['asked']]),
        ((state['kind'] != VISUAL) & ~state['read'], searches, names[first]),
        ((state['kind'] != VISUAL) & (first != last) & ~state['reread'], searches, names[last]),
        (jnp.bool_(True), answers, right),
    ]
    due = jnp.argmax(jnp.stack([is_due for is_due, _, _ in calls]))
    word = jnp.stack([jnp.stack([tool, argument]) for _, tool, argument in calls])[due]
    return with_end(word.astype(jnp.int32), jnp.int32(2), 3)

  expected_calls = 1 + 2 / 3 * renamed + wasteful  # 0, 1 and 2, and once more for other names
  return TurnTask(
      alphabet=alphabet, prompt_columns=places + 3, answer_columns=3, sample=sample, observation_columns=2,
      start=start, act=act, expert=expert, expert_return=1 - cost * expected_calls,
  )
