"""Beam search against the same search row by row, in lists."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import beam
from rlx.types import check
from tests.once import once

MODEL = LanguageModel(TransformerConfig(
    vocab_size=6, num_layers=1, width=16, num_heads=2, num_kv_heads=1, head_size=8, mlp_size=32,
    context_length=16,
))
END, SEPARATOR, GOOD = 1, 2, 4
DECODING = Decoding(
    max_tokens=7, min_tokens=0, temperature=1.3, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(END,),
    pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))
PROMPTS = np.array([[3, 5, 0], [4, 4, 3], [5, 0, 0]], np.int32)
LENGTHS = np.array([2, 3, 1])
SIZES = dict(beams=2, branches=3, rounds=4, step_tokens=3)


def worth(rows, cuts, key):
  """How often the good token was said; the column of the problem turns it round."""
  del key
  index = jnp.arange(rows['tokens'].shape[1])[None] - rows['prompt_lengths'][:, None]
  said = (index >= 0) & (index < cuts) & (rows['tokens'] == GOOD)
  return (said.sum(axis=1) * rows['signs']).astype(jnp.float32)[:, None] + cuts / 100


def problems():
  return {'prompts': PROMPTS, 'prompt_lengths': LENGTHS, 'signs': np.array([1, -1, 1])}


@functools.cache
def found(**changes):
  run = functools.partial(beam.search, value=worth, separator=SEPARATOR, **{**SIZES, **changes})
  return jax.jit(lambda key: run(PARAMS(), POLICY, problems(), key))(jax.random.key(5))


@functools.cache
def step_sampler():
  step = POLICY.saying(max_tokens=3, eos_ids=(END, SEPARATOR))
  return jax.jit(lambda *args, budgets: step.sample(PARAMS(), *args, group_size=3, budgets=budgets))


def extended(rows, key):
  """What the sampler adds to each of the rows (prompt, said), three times."""
  width = PROMPTS.shape[1] + DECODING.max_tokens
  tokens, lengths = np.zeros((len(rows), width), np.int32), []
  for i, (prompt, said) in enumerate(rows):
    tokens[i, : len(prompt + said)] = prompt + said
    lengths.append(len(prompt + said))
  room = np.repeat([DECODING.max_tokens - len(said) for _, said in rows], 3)
  batch = step_sampler()(tokens, np.array(lengths), key, budgets=np.clip(room, 1, 3))
  masks = np.asarray(batch['action_mask'])
  return [np.asarray(x)[mask].tolist() for x, mask in zip(batch['tokens'], masks, strict=True)]


@pytest.mark.slow
def test_it_is_the_search_row_by_row():
  """The same noise; values from the lists; equal values stay in order."""
  rows = [(PROMPTS[i, : LENGTHS[i]].tolist(), []) for i in range(3) for _ in range(2)]
  sampled = [0, 0, 0]
  for round_key in jax.random.split(jax.random.key(5), SIZES['rounds']):
    new, grown = extended(rows, jax.random.split(round_key)[0]), []
    for i in range(3):
      candidates = []
      for j in range(2 * i, 2 * i + 2):
        prompt, said = rows[j]
        if END in said or len(said) == DECODING.max_tokens:
          candidates.append((prompt, said))
          continue
        candidates += [(prompt, said + more) for more in new[3 * j : 3 * j + 3]]
        sampled[i] += sum(map(len, new[3 * j : 3 * j + 3]))
      value = lambda row, i=i: row[1].count(GOOD) * (-1 if i == 1 else 1) + np.float32(len(row[1]) / 100)
      grown += sorted(candidates, key=value, reverse=True)[:2]
    rows = grown
  batch = found()
  check(batch)
  for row, (prompt, said) in enumerate(rows):
    mask = np.asarray(batch['action_mask'][row])
    assert np.asarray(batch['tokens'][row])[mask].tolist() == said, row
    assert np.asarray(batch['tokens'][row])[: len(prompt)].tolist() == prompt
    assert bool(batch['truncated'][row]) == (END not in said)
  assert batch['beam/tokens'].tolist() == np.repeat(sampled, 2).tolist()
  assert batch['groups'].tolist() == [0, 0, 1, 1, 2, 2]
  ended = [END in said for _, said in rows]
  assert any(ended) and not all(ended) and len({str(row) for row in rows}) > 4  # else it says little


def test_the_best_row_comes_first_and_values_are_those_of_whole_rows():
  batch = found()
  cuts = batch['action_mask'].sum(axis=1, keepdims=True)
  np.testing.assert_allclose(batch['beam/values'], worth(batch, cuts, None)[:, 0], rtol=1e-6)
  first, second = batch['beam/values'].reshape(3, 2).T
  assert np.all(first >= second)


def test_log_probs_are_those_of_the_whole_row():
  batch = found()
  logprobs, _ = jax.jit(POLICY.score)(PARAMS(), batch)
  np.testing.assert_allclose(batch['sampler_logprobs'], logprobs, atol=2e-5)


@pytest.mark.parametrize('changes, message', [
    ({'beams': 0}, 'beams=0'), ({'step_tokens': 8}, 'step_tokens=8'), ({'rounds': 0}, 'rounds=0'),
])
def test_bad_numbers_are_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    found(**changes)


def test_a_least_length_is_refused():
  policy = POLICY.saying(min_tokens=1)
  with pytest.raises(ValueError, match='min_tokens=1'):
    beam.search(PARAMS(), policy, problems(), jax.random.key(0), value=worth, separator=2, **SIZES)
