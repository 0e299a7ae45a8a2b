"""What cannot be compared is refused in one line; distances of models are those of whole distributions."""

import dataclasses
import functools
import json
from pathlib import Path

import algorithms_table as table
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.data.dataset import dataset
from rlx.engine.distances import distances
from rlx.losses import distillation
from rlx.rollout import pairs

TINY = str(Path(__file__).parents[2] / 'experiments/data/tiny_model')
PAIR = {'prompt': 'How?', 'chosen': ' 1', 'rejected': ' 2'}
LABEL = {'prompt': 'How?', 'completion': ' 1', 'label': True}


def rows_as_task(tmp_path, rows):
  path = tmp_path / 'rows.jsonl'
  path.write_text(''.join(json.dumps(row) + '\n' for row in rows))
  return dataset(
      directory=TINY, train=str(path), held_out='', columns={}, chat=False, system='', max_prompt_tokens=40,
      max_completion_tokens=12, malformed='strict',
  )


@pytest.mark.parametrize(('make', 'rows', 'words'), [
    (pairs.labelled, [LABEL] * 3, 'all 3 answers of task.train are good; some of each'),
    (pairs.labelled, [{'prompt': 'How?', 'completion': ' 1'}], 'no labels; they need a column label'),
    (pairs.comparisons, [LABEL], 'no pairs; they need columns chosen and rejected'),
    (functools.partial(pairs.comparisons, batch_size=3), [PAIR], 'batch_size=3: a comparison is two rows'),
])
def test_rows_that_cannot_be_compared_are_refused(tmp_path, make, rows, words):
  decoding = dataclasses.replace(table.DECODING, max_tokens=12)
  policy = dataclasses.replace(table.POLICY, decoding=decoding)
  make = make if isinstance(make, functools.partial) else functools.partial(make, batch_size=2)
  with pytest.raises(ValueError, match=words):
    make(rows_as_task(tmp_path, rows), policy)


@pytest.mark.slow
def test_distances_are_those_of_whole_distributions_a_few_tokens_at_a_time():
  first, second = (table.MODEL.init(jax.random.key(i)) for i in (0, 1))
  policy = dataclasses.replace(table.POLICY, scoring=dataclasses.replace(table.SCORING, chunk_tokens=5))
  batch, _ = table.compared(8).draw({}, {}, jax.random.key(2))
  divergence = functools.partial(distillation.generalised_jsd, share=0.3)

  def at_once(params):
    logits = [table.MODEL.logits(x, table.MODEL.forward(x, batch['tokens'])[0]) for x in (params, second)]
    apart = jnp.pad(divergence(*logits)[:, :-1], ((0, 0), (1, 0)))
    return jnp.where(batch['action_mask'], apart, 0)

  chunked = lambda params: distances(policy, params, policy, second, batch, divergence=divergence)
  np.testing.assert_allclose(chunked(first), at_once(first), rtol=1e-4, atol=1e-7)
  slopes = [jax.grad(lambda x, f=f: f(x).sum())(first) for f in (chunked, at_once)]
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5), *slopes)
  other = dataclasses.replace(policy, model=table.MODEL.replace(vocab_size=9))
  with pytest.raises(ValueError, match='the policy has .* tokens and the teacher 9; .* cannot be compared'):
    distances(policy, first, other, second, batch, divergence=divergence)
