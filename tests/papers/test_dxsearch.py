"""Deep-DxSearch: four terms of a diagnosis, and what is not paid any more without that of retrieval.

https://arxiv.org/abs/2508.15746
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.worlds.clinic import clinic
from rlx.rewards.of_world import of_parts

WORLD = clinic(complaints=1, diseases=3, typical=3, common=1, noise=1, corpora=20, held_out_share=0.3)
ACT, SAMPLE = jax.jit(WORLD.act), jax.jit(WORLD.sample, static_argnums=(1, 2))
WEIGHTS = {'success': 1.0, 'hit_rate': 0.5, 'structure': 0.2, 'format': 0.1}
# Everybody has `w`, which is common; typical of A are a and b, of B a and c, of C b and c.
PROBLEM = {
    'guidelines': jnp.array([[0, 1], [0, 2], [1, 2]]), 'owners': jnp.array([2, 0, 1, 2, 0, 1]),
    'cases': jnp.array([
        [0, 1, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 0, 1], [1, 0, 1, 1],
    ]),
    'disease': jnp.array([1]), 'symptoms': jnp.array([[0, 3, 2]]), 'tries': jnp.array([[0, 2, 1]]),
}


def played(words):
  """What is read behind each word, and the last reply."""
  state, read = WORLD.start(PROBLEM), []
  for word in words:
    action = jnp.pad(jnp.asarray(WORLD.encode(word)), (0, 4 - len(word)), constant_values=1)
    reply = ACT(state, action, jnp.int32(len(word) + 1), jax.random.key(0))
    state = reply.state
    read.append(WORLD.decode(np.asarray(reply.observation)[: int(reply.length)]))
  return read, reply


@pytest.mark.parametrize(('words', 'read', 'told'), [
    # success, hit_rate, structure, format
    (['sac', 'gB', '=B'], [':BB', ':ac', '!'], (1, 1, 1, 1)),
    (['sca', 'gB', '=A'], [':BB', ':ac', '!'], (0, 1, 0, 1)),  # found, and another one is named
    (['saw', 'gA', '=A'], [':AB', ':ab', '!'], (0, 1, 1, 1)),  # by a common symptom as many cases are alike
    (['scb', 'gC', '=C'], [':CC', ':bc', '!'], (0, 0, 1, 1)),  # every step is there, but the search missed
    (['sac', '=B'], [':BB', '!'], (1, 1, 0.5, 1)),
    (['gB', '=B'], [':ac', '!'], (1, 0, 0.5, 1)),
    (['=B'], ['!'], (1, 0, 0, 1)),
    (['saa', 'sac', 'B', '=B'], ['!', ':BB', '!', '!'], (1, 1, 0.5, 0.5)),
    (['sac', 'gB'], [':BB', ':ac'], (0, 1, 0, 0)),  # nothing is named
])
def test_what_is_told_of_an_episode(words, read, told):
  heard, reply = played(words)
  assert heard == read
  np.testing.assert_allclose([reply.info[name] for name in WEIGHTS], told)
  assert float(reply.reward) == told[0] and bool(reply.ended) == (words[-1][0] == '=')


def test_a_patient_with_two_complaints_is_right_where_both_are():
  world = clinic(complaints=2, diseases=3, typical=3, common=1, noise=1, corpora=20, held_out_share=0.3)
  both = {'disease': jnp.array([1, 2]), 'symptoms': jnp.array([[0, 3, 2], [3, 1, 2]])}
  start, act = world.start({**PROBLEM, **both, 'tries': jnp.array([[0, 2, 1]] * 2)}), jax.jit(world.act)

  def told(*words):
    state = start
    for word in words:
      action = jnp.pad(jnp.asarray(world.encode(word)), (0, 4 - len(word)), constant_values=1)
      reply = act(state, action, jnp.int32(len(word) + 1), jax.random.key(0))
      state = reply.state
    return [float(reply.info[name]) for name in WEIGHTS]

  assert told('sac', 'gB', 'scb', 'gC', '=BC') == [1, 1, 1, 1]
  assert told('sac', 'gB', '=BC') == [1, 0.5, 0.5, 1]
  assert told('sac', 'gB', '=BA') == [0, 0.5, 0.5, 1]
  assert told('sac', 'scb', '=CB') == [0, 1, 0.5, 1]  # each names the other's disease
  assert told('=B') == [0, 0, 0, 0]  # nothing ends


def paid(episodes, **changes):
  infos = [played(words)[1].info for words in episodes]
  batch = {f'episode/{name}': jnp.stack([info[name] for info in infos]) for name in WEIGHTS}
  return of_parts(weights={**WEIGHTS, **changes})({}, batch, None)['rewards'].tolist()


def test_a_search_that_misses_is_paid_less_and_without_its_term_it_is_not():
  """Two episodes that name a wrong disease, with every step there: they differ in what was searched for."""
  hit, missed = ['saw', 'gA', '=A'], ['scb', 'gC', '=C']
  assert paid([hit, missed]) == pytest.approx([0.8, 0.3])
  assert paid([hit, missed], hit_rate=0.0) == pytest.approx([0.3, 0.3])
  right, named_only = ['sac', 'gB', '=B'], ['=B']
  assert paid([right, named_only]) == pytest.approx([1.8, 1.1])
  assert paid([right, named_only], hit_rate=0.0, structure=0.0, format=0.0) == pytest.approx([1, 1])


@pytest.mark.slow
def test_a_search_with_both_typical_symptoms_hits_and_with_common_ones_it_may_not():
  """In the corpora of the config's size."""
  world = clinic(complaints=1, diseases=6, typical=5, common=3, noise=2, corpora=100, held_out_share=0.2)
  problems = world.sample(jax.random.key(0), 256, False)

  def hit(problem, places):
    signs = jnp.array([world.encode('abcdewxy')[i] for i in range(8)])[places]
    word = jnp.concatenate([jnp.asarray(world.encode('s')), signs, jnp.array([1])])
    return world.act(world.start(problem), word, jnp.int32(4), jax.random.key(0)).info['hit_rate']

  own = problems['guidelines'][jnp.arange(256), problems['disease'][:, 0]]
  hits = jax.jit(jax.vmap(hit))
  common = problems['symptoms'][problems['symptoms'] >= 5].reshape(256, 2)
  assert hits(problems, own).min() == 1
  assert 0.2 < hits(problems, common).mean() < 0.55
  assert 0.3 < hits(problems, jnp.stack([own[:, 0], common[:, 0]], axis=1)).mean() < 0.8


def test_corpora_are_held_out_whole():
  seen = [
      {x.tobytes() for x in np.asarray(SAMPLE(jax.random.key(1), 128, part)['cases'])}
      for part in (False, True)
  ]
  assert len(seen[1]) > 3 and not seen[0] & seen[1]
