"""VRAG-RL: what is found early pays more, and what is asked for is read by cropping and zooming.

https://arxiv.org/abs/2505.22019
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.rankings import ndcg
from rlx.envs.worlds.pages import pages
from rlx.rewards.of_world import of_parts

WORLD = pages(titles=4, regions=2, digits=4, layouts=20, held_out_share=0.3)
LOG2 = np.log2(3), np.log2(5)


@pytest.mark.parametrize(('relevance', 'num_relevant', 'expected'), [
    ([1, 0, 0, 0], 1, 1.0),
    ([0, 1, 0, 0], 1, 1 / LOG2[0]),
    ([0, 0, 1, 0], 1, 1 / 2),
    ([0, 0, 0, 0], 1, 0.0),
    ([1, 1, 0, 0], 2, 1.0),
    ([1, 0, 1, 0], 2, (1 + 1 / 2) / (1 + 1 / LOG2[0])),
    ([0, 1, 0, 1], 2, (1 / LOG2[0] + 1 / LOG2[1]) / (1 + 1 / LOG2[0])),
    ([1, 0, 0, 0], 2, 1 / (1 + 1 / LOG2[0])),  # one of two was never found
])
def test_ndcg_by_hand(relevance, num_relevant, expected):
  np.testing.assert_allclose(ndcg(jnp.array(relevance), jnp.array(num_relevant)), expected, rtol=1e-6)


def test_ndcg_orders_rankings_by_how_early_they_are_right():
  lists = jnp.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]])
  found = np.asarray(ndcg(lists, jnp.full(6, 2)))
  assert found[0] == pytest.approx(1) and (np.diff(found) < 0).all()


def problem():
  """Page `B` is asked about, at mark `x`, which stands in its second region beside a 3."""
  marks = jnp.array([[0, 1], [0, 1], [1, 0], [0, 1]])
  small = jnp.array([[0, 1], [2, 3], [1, 2], [2, 0]])
  return {'marks': marks, 'small': small, 'tries': jnp.arange(4), 'title': jnp.int32(1), 'mark': jnp.int32(1)}


def played(words):
  state, read, act = WORLD.start(problem()), [], jax.jit(WORLD.act)
  for word in words:
    action = jnp.pad(WORLD.encode(word), (0, 3 - len(word)), constant_values=1)
    reply = act(state, action, jnp.int32(len(word) + 1), jax.random.key(0))
    state = reply.state
    read.append(WORLD.decode(np.asarray(reply.observation)[: int(reply.length)]))
  return read, reply


def finds():
  """Word -> the title of the page that it finds first, and the one that finds page `B`."""
  first = {word: played([f's{word}'])[0][0][0] for word in 'abde'}
  return first, next(word for word, title in first.items() if title == 'B')


def test_each_word_finds_another_page_and_again_the_next_one():
  first, word = finds()
  assert sorted(first.values()) == list('ABCD')
  read, reply = played([f's{word}'] * 5)
  assert sorted(page[0] for page in read[:4]) == list('ABCD') and read[4] == '!'
  assert float(reply.info['searches']) == 4


def test_what_is_asked_for_is_read_from_coarse_to_fine():
  _, word = finds()
  read, reply = played(['ck', 'z', f's{word}', 'z', 'cl', 'z', '=3'])
  assert read == ['!', '!', 'Bwx', '!', 'x', '3', '!']
  assert bool(reply.ended) and float(reply.reward) == 1 and float(reply.info['looks']) == 2
  assert float(played([f's{word}', 'ck', 'z', '=2'])[1].reward) == 0  # beside another mark
  assert played([f's{word}', 'cl', f's{word}', 'z'])[0][-1] == '!'  # the next page is seen from afar again


def test_early_hits_pay_more_for_the_same_answer_and_without_ndcg_they_do_not():
  first, word = finds()
  others = [f's{other}' for other in 'abde' if first[other] != 'B']
  look = ['cl', 'z', '=3']
  episodes = [[f's{word}', *look], [others[0], f's{word}', *look], ['=3'], [others[0], '=0']]
  found = [played(words)[1].info for words in episodes]
  batch = {f'episode/{name}': jnp.stack([info[name] for info in found]) for name in ('success', 'ndcg')}
  paid = lambda weight: of_parts(weights={'success': 1.0, 'ndcg': weight})({}, batch, None)['rewards']
  np.testing.assert_allclose(paid(0.5), [1.5, 1 + 0.5 / LOG2[0], 1, 0], rtol=1e-6)
  np.testing.assert_allclose(paid(0.0), [1, 1, 1, 0])
