"""Shared pieces of text: by hand, against counters, and what does not count."""

from collections import Counter

import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.sorting import sorting
from rlx.rewards import overlap as rewards
from rlx.rewards.overlap import f1, overlap
from tests.cases import cases


def everything(*arrays):
  return [jnp.ones(np.shape(x), bool) for x in arrays]


@pytest.mark.slow
def test_by_hand():
  """`4 4 5` and `4 5 5 6`: they share one 4 and one 5, and the pair 4 5."""
  said, wanted = jnp.array([[4, 4, 5]]), jnp.array([[4, 5, 5, 6]])
  masks = everything(said, wanted)
  np.testing.assert_allclose(f1(said, wanted, *masks, order=1), [2 * 2 / (3 + 4)])
  np.testing.assert_allclose(f1(said, wanted, *masks, order=2), [2 * 1 / (2 + 3)])
  np.testing.assert_allclose(f1(said, wanted, *masks, order=3), [0.0])


@pytest.mark.parametrize('order', cases([1, 2, 3], at_once=(2,)))
def test_is_that_of_counters(order):
  """Random rows of random lengths, of few different tokens."""
  rng = np.random.default_rng(order)
  rows = [rng.integers(0, 3, (40, columns)) for columns in (7, 5)]
  lengths = [rng.integers(0, x.shape[1] + 1, 40) for x in rows]
  masks = [np.arange(x.shape[1])[None] < n[:, None] for x, n in zip(rows, lengths, strict=True)]
  found = f1(*map(jnp.asarray, rows), *map(jnp.asarray, masks), order=order)
  pieces = lambda row: Counter(tuple(row[i : i + order]) for i in range(len(row) - order + 1))
  for n in range(40):
    one, other = (pieces(x[n, : length[n]].tolist()) for x, length in zip(rows, lengths, strict=True))
    total = one.total() + other.total()
    np.testing.assert_allclose(found[n], 2 * (one & other).total() / total if total else 0.0, rtol=1e-6)


@pytest.mark.slow
def test_the_reward_reads_up_to_the_end():
  """`12` for `021`, whose answer is 012: with its end, cut off, and with more behind the end."""
  task = sorting(length=3, held_out_share=0.1)
  decoding = Decoding(
      max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
      eos_ids=task.eos_ids, pad_id=0,
  )
  policy = Speaker(model=None, decoding=decoding, scoring=None)
  prompt, answer = task.encode('021='), [*task.encode('012'), 1]
  said = [[3, 4, 1, 0], [3, 4, 0, 0], [3, 4, 1, 2], [1, 0, 0, 0], answer]
  tokens = jnp.array([[*prompt, *x] for x in said], jnp.int32)
  mask = (tokens != 0) & (jnp.arange(8)[None] >= 4)
  batch = {
      'tokens': tokens, 'action_mask': mask, 'prompt_lengths': jnp.full(5, 4),
      'solutions': jnp.tile(jnp.array([answer], jnp.int32), (5, 1)),
  }
  scored = overlap(task, policy, order=1)({}, batch, None)
  np.testing.assert_allclose(scored['rewards'], [0.8, 0.8, 0.8, 0.0, 1.0], rtol=1e-6)
  np.testing.assert_array_equal(scored['reward/right'], [0, 0, 0, 0, 1])
  pairs = overlap(task, policy, order=2)({}, batch, None)['rewards']
  np.testing.assert_allclose(pairs, [2 / 3, 2 / 3, 2 / 3, 0.0, 1.0], rtol=1e-6)


def test_pieces_that_no_row_can_have_are_refused():
  x = jnp.ones((1, 3), jnp.int32)
  for order in (0, 4):
    with pytest.raises(ValueError, match=f'order={order}'):
      rewards.f1(x, x, *everything(x, x), order=order)
