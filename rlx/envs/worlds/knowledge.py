"""Questions of several hops to two indices: `axy...?` -> `pax` -> `c` -> `gcy` -> `e` -> `=e`.

Facts are those of a small knowledge graph (`envs/graphs.py`): the entity that another one has under a
relation. What is known of rare entities stands in the private index `p`, and of all others in the general
one, `g`; the other index finds nothing, `!`. Which entities are rare is the same in all graphs, and has to be
known; what is linked is not, and has to be looked up. The prompt names the first entity of a chain and its
relations, `=` answers with the last entity and ends the episode.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import graphs, text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_MARKS, _ENTITIES, _RELATIONS = '!?.pg=', 'abcdefghijkl', 'xyzuvw'
_MOST = 5  # hops that a question may have


def knowledge(
    *, entities: int, relations: int, density: float, rare_below: float, num_graphs: int, chains: Callable,
    min_hops: int, max_hops: int, held_out_share: float,
) -> TurnTask:
  """Episodes in one of several graphs; the reward is 1 for the right entity, whatever was looked up.

  `info` has `right_index`, the share of the hops of the question that were asked of their index;
  `well_formed`, the share of turns that were understood; and `queries`, how many were made.

  Args:
    entities: of a graph, in 3..12; entity i is mentioned 1 / √(i + 1) times as often as the first one.
    relations: in 1..6.
    density: the chance that a relation of an entity is known.
    rare_below: entities of a smaller share of all mentions are rare.
    num_graphs: how many there are; nothing tells which one it is.
    chains: `(links, rare, rng) -> chains` that questions are made of, such as `graphs.around_rare`.
    min_hops: chains of fewer links are no question, at least 1.
    max_hops: nor are those of more; at most 5.
    held_out_share: in (0, 1), the part of all graphs that is never trained on.
  Raises:
    ValueError: an argument out of its range, or a part without questions.
  """
  between(3, len(_ENTITIES), entities=entities)
  between(1, len(_RELATIONS), relations=relations)
  between(1, _MOST, min_hops=min_hops, max_hops=max_hops)
  alphabet = _MARKS + _ENTITIES[:entities] + _RELATIONS[:relations]
  nothing, asked, blank, private, general, answers = text.characters(_MARKS, alphabet)
  names = np.asarray(text.characters(_ENTITIES[:entities], alphabet))
  words = np.asarray(text.characters(_RELATIONS[:relations], alphabet))
  frequencies = np.arange(1, entities + 1) ** -0.5
  rarely = graphs.rare(frequencies, below=rare_below)
  is_rare = np.isin(np.arange(entities), rarely)
  index_of = jnp.where(is_rare, private, general)  # [entities]
  columns = _MOST + 2

  def questions(numbers):
    """Links, chains and prompts of all questions about some graphs, as arrays with a row each."""
    found = []
    for number in numbers:
      rng = np.random.default_rng(number)
      links = graphs.drawn_graph(rng, frequencies=frequencies, relations=relations, density=density)
      asks = chains(links, rarely, rng)
      found += [(links, chain) for chain in asks if min_hops <= len(chain.relations) <= max_hops]
    if not found:
      raise ValueError(
          f'num_graphs={num_graphs}, held_out_share={held_out_share}: {len(numbers)} graphs have no chain of '
          f'{min_hops} to {max_hops} hops; take more of them'
      )
    wide = lambda rows, size: np.array([(*row, *[-1] * (size - len(row))) for row in rows], np.int32)
    way = wide([chain.entities for _, chain in found], _MOST + 1)
    kinds = wide([chain.relations for _, chain in found], _MOST)
    hops = np.array([len(chain.relations) for _, chain in found], np.int32)
    # As wide for few hops as for many: each relation has a place of its own.
    kinds_shown = np.where(kinds < 0, blank, words[kinds])
    ends = np.full_like(way[:, :1], asked)
    prompts = np.concatenate([names[way[:, :1]], kinds_shown, ends], axis=1).astype(np.int32)
    return {
        'links': np.stack([links for links, _ in found]), 'way': way, 'kinds': kinds, 'hops': hops,
        'prompts': prompts, 'prompt_lengths': np.full_like(hops, columns),
    }

  boundary = round(num_graphs * held_out_share)
  parts = {True: questions(range(boundary)), False: questions(range(boundary, num_graphs))}
  names, words = jnp.asarray(names), jnp.asarray(words)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    part = parts[held_out]
    which = jax.random.randint(key, (num,), 0, len(part['hops']))
    return {name: jnp.asarray(x)[which] for name, x in part.items()}

  def start(problem: Batch):
    known = {name: problem[name] for name in ('links', 'way', 'kinds', 'hops')}
    count = jnp.float32(0)
    return {**known, 'found': jnp.zeros(_MOST, bool), 'turns': count, 'understood': count, 'queries': count}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 4)
    (entity, is_entity), (kind, is_kind) = index_in(names, word[1]), index_in(words, word[2])
    asks_one = (word[0] == private) | (word[0] == general)
    looks = asks_one & is_entity & is_kind & (word[3] == text.PAD_ID)
    ends = (word[0] == answers) & is_entity & (word[2] == text.PAD_ID)
    target = state['links'][entity, kind]
    finds = looks & (word[0] == index_of[entity]) & (target >= 0)
    observation = jnp.where(finds, names[target], nothing)[None].astype(jnp.int32)
    last = state['way'][state['hops']]
    solved = (ends & (entity == last)).astype(jnp.float32)
    on_the_way = finds & (state['way'][:-1] == entity) & (state['kinds'] == kind)
    understood = looks | ends
    after = {
        **state, 'found': state['found'] | on_the_way, 'turns': state['turns'] + 1,
        'understood': state['understood'] + understood, 'queries': state['queries'] + looks,
    }
    info = {
        SUCCESS: solved, 'right_index': after['found'].sum() / state['hops'],
        'well_formed': after['understood'] / after['turns'], 'queries': after['queries'],
    }
    return Reply(after, observation, jnp.int32(1), solved, ends, understood, info)

  def expert(state):
    missing = ~state['found'] & (jnp.arange(_MOST) < state['hops'])
    hop = jnp.argmax(missing)
    entity = state['way'][hop]
    look = jnp.stack([index_of[entity], names[entity], words[state['kinds'][hop]]])
    answer = jnp.stack([answers, names[state['way'][state['hops']]], jnp.int32(text.PAD_ID)])
    looking = jnp.any(missing)
    return with_end(jnp.where(looking, look, answer), jnp.where(looking, 3, 2), 4)

  return TurnTask(
      alphabet=alphabet, prompt_columns=columns, answer_columns=4, sample=sample, observation_columns=1,
      start=start, act=act, expert=expert, expert_return=1.0,
  )
