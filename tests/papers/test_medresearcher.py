"""MedResearcher-R1: questions of the longest chains around rare entities, two indices, a composite reward.

https://arxiv.org/abs/2508.14880
"""

from functools import partial
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs import graphs
from rlx.envs.worlds.knowledge import knowledge
from rlx.errors import ConfigError
from rlx.rewards.of_world import of_parts, of_world

FREQUENCIES = np.arange(1, 7) ** -0.5
RARE = graphs.rare(FREQUENCIES, below=0.13)
LONGEST = partial(graphs.around_rare, radius=2)
SIZE = {
    'entities': 6, 'relations': 2, 'density': 0.6, 'rare_below': 0.13, 'num_graphs': 40, 'min_hops': 1,
    'max_hops': 4, 'held_out_share': 0.25,
}
WORLD = knowledge(chains=LONGEST, **SIZE)
SAMPLE = jax.jit(WORLD.sample, static_argnums=(1, 2))
PROBLEM = {  # a x-> e x-> b y-> f, and d, which only points to others
    'links': jnp.array([[4, -1], [-1, 5], [-1, -1], [0, 1], [1, -1], [-1, -1]]),
    'way': jnp.array([0, 4, 1, 5, -1, -1]), 'kinds': jnp.array([0, 0, 1, -1, -1]), 'hops': jnp.int32(3),
}


def drawn(number):
  rng = np.random.default_rng(number)
  return graphs.drawn_graph(rng, frequencies=FREQUENCIES, relations=2, density=0.5), rng


def tried(links, centre, radius):
  """The number of links of the longest chain, by every order of every choice of entities."""
  joined = lambda x, y: y in links[x]
  near = {centre}
  for _ in range(radius):
    near |= {x for x in range(len(links)) for y in near if joined(x, y) or joined(y, x)}
  return max(
      len(order) - 1 for size in range(1, len(near) + 1) for order in itertools.permutations(near, size)
      if centre in order and all(itertools.starmap(joined, itertools.pairwise(order)))
  )


def test_what_is_mentioned_seldom_is_rare():
  # Of 1 + 1/√2 + .. + 1/√6 = 3.64 the last three have 0.137, 0.123 and 0.112.
  assert RARE == [4, 5] and graphs.rare([1, 1], below=0.4) == []


def test_the_chain_is_the_longest_one():
  for number in range(12):
    links, _ = drawn(number)
    for centre, radius in itertools.product(RARE, (0, 1, 2)):
      chain = graphs.longest_chain(links, centre, radius=radius)
      assert len(chain.relations) == tried(links, centre, radius) == len(chain.entities) - 1
      assert centre in chain.entities and len(set(chain.entities)) == len(chain.entities)
      steps = zip(chain.entities, chain.relations, chain.entities[1:], strict=False)
      assert all(links[subject, relation] == target for subject, relation, target in steps)


def test_what_lies_behind_the_radius_does_not_count():
  line = np.array([[1], [2], [3], [4], [-1]])
  assert graphs.longest_chain(line, 2, radius=1).entities == (1, 2, 3)
  assert graphs.longest_chain(line, 2, radius=2).entities == (0, 1, 2, 3, 4)


def test_chains_at_random_are_shorter_and_have_rare_entities_less_often():
  found = {'longest': [], 'random': []}
  for number in range(100):
    links, rng = drawn(number)
    found['longest'] += LONGEST(links, RARE, rng)
    found['random'] += graphs.at_random(links, RARE, rng)
  length = {name: np.mean([len(x.relations) for x in chains]) for name, chains in found.items()}
  seldom = {name: np.mean([bool({*x.entities} & {*RARE}) for x in chains]) for name, chains in found.items()}
  assert length['longest'] > length['random'] + 0.5
  assert seldom['longest'] == 1 > seldom['random'] + 0.2


def played(words):
  """What is read of each word, and the last reply."""
  state, read, act = WORLD.start(PROBLEM), [], jax.jit(WORLD.act)
  for word in words:
    action = jnp.pad(WORLD.encode(word), (0, 1), constant_values=1)
    reply = act(state, action, jnp.int32(len(action)), jax.random.key(0))
    state = reply.state
    read.append(WORLD.decode(np.asarray(reply.observation)))
  return ''.join(read), reply


@pytest.mark.parametrize(('words', 'read', 'told'), [
    (['gax', 'pex', 'gby', '=f'], 'ebf!', (1, 1, 1)),
    (['pax', 'gax', 'gex', '=b'], '!e!!', (0, 1 / 3, 1)),  # the wrong index finds nothing
    (['gdx', 'gay', 'xx', '=f'], 'a!!!', (1, 0, 3 / 4)),  # no hop of this question; not known; not understood
    (['gax', 'gax', 'pex', '=b'], 'eeb!', (0, 2 / 3, 1)),  # asked twice is asked once
])
def test_facts_of_rare_entities_stand_in_the_private_index(words, read, told):
  answered, reply = played(words)
  assert answered == read and bool(reply.ended)
  found = [float(reply.info[name]) for name in ('success', 'right_index', 'well_formed')]
  np.testing.assert_allclose(found, told, rtol=1e-6)
  assert float(reply.reward) == told[0]


def test_a_question_is_the_whole_chain_and_only_its_first_entity_is_named():
  problems = SAMPLE(jax.random.key(0), 32, False)
  columns = (np.asarray(problems[name]) for name in ('prompts', 'way', 'kinds', 'hops'))
  for prompt, way, kinds, hops in zip(*columns, strict=True):
    expected = 'abcdef'[way[0]] + ''.join('xy'[kind] for kind in kinds[:hops]) + (5 - hops) * '.' + '?'
    assert WORLD.decode(prompt) == expected and set(way[: hops + 1]) & set(RARE)


def test_graphs_are_held_out_whole():
  linked = [
      {x.tobytes() for x in np.asarray(SAMPLE(jax.random.key(1), 256, held_out)['links'])}
      for held_out in (False, True)
  ]
  assert len(linked[1]) > 3 and not linked[0] & linked[1]


def test_the_reward_is_composed_of_parts():
  batch = {
      'rewards': jnp.array([1.0, 0.0, 1.0]), 'episode/success': jnp.array([1.0, 0.0, 1.0]),
      'episode/right_index': jnp.array([0.5, 1.0, 0.0]), 'episode/well_formed': jnp.array([1.0, 0.5, 1.0]),
  }
  parts = of_parts(weights={'success': 1.0, 'right_index': 0.2, 'well_formed': 0.1})
  np.testing.assert_allclose(parts({}, batch, None)['rewards'], [1.2, 0.25, 1.1], rtol=1e-6)
  alone = of_parts(weights={'success': 1.0})
  np.testing.assert_array_equal(alone({}, batch, None)['rewards'], of_world()({}, batch, None)['rewards'])
  with pytest.raises(ConfigError, match=r"has \['style'\]"):
    of_parts(weights={'success': 1.0, 'style': 1.0})({}, batch, None)
