"""COS(M+O)S: a value of surprise and coherence, its search, and the pairs that ORPO learns from."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.stories import stories
from rlx.losses.comparisons import sides
from rlx.models.families import gpt2
from rlx.models.stories import story_value
from rlx.rollout import stories as rollouts
from tests.once import once

TASK = stories(
    events=6, length=3, fresh=2, usual_share=0.6, loose_share=0.2, errs=0.0, held_out_share=0.2
)
MODEL = gpt2(
    TASK, num_layers=1, width=8, num_heads=2, context_length=16, dtype='float32', remat=False,
    attention='reference',
)
AUTHOR = Speaker(
    model=MODEL, scoring=Scoring(chunk_tokens=64, packing=None), decoding=Decoding(
        max_tokens=4, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
        eos_ids=TASK.eos_ids, pad_id=TASK.pad_id,
    ),
)
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))


class Coherence:
  """A value that counts what follows, whatever surprises."""

  def apply(self, params, batch):
    del params
    return jnp.sum(jnp.where(batch['events'], batch['coherent'], 0), axis=1).astype(jnp.float32)


def test_a_value_begins_at_nothing_and_is_a_sum_over_events():
  model = story_value(hidden=(4,))
  value, params = model.functions, model.init(jax.random.key(0), {})
  rows = {
      'surprise': jnp.array([[0.5, 3.0, 9.0]]), 'coherent': jnp.array([[True, True, False]]),
      'events': jnp.array([[True, True, False]]),
  }
  assert value.apply(params, rows).tolist() == [0]
  params = jax.tree.map(lambda x: x + 0.3, params)
  each = value.steps(params, rows['surprise'], rows['coherent'])
  np.testing.assert_allclose(value.apply(params, rows), each[:, :2].sum(axis=1), rtol=1e-6)


def test_surprise_is_what_the_author_says():
  """Of the events behind the opening, and of nothing else."""
  problems = TASK.sample(jax.random.key(1), 3, False)
  rows = jax.jit(functools.partial(AUTHOR.sample, group_size=1))(
      PARAMS(), problems['prompts'], problems['prompt_lengths'], jax.random.key(2)
  )
  found = rollouts.measured(TASK, AUTHOR, PARAMS(), {**problems, **rows})
  said = np.asarray(rows['action_mask'][:, 4:])
  np.testing.assert_allclose(
      np.where(said, found['surprise'], 0), -np.asarray(rows['sampler_logprobs'][:, 4:]), atol=1e-5
  )
  assert not np.asarray(found['events'])[~said].any()


@pytest.mark.slow
def test_pairs_are_the_best_of_a_search_and_the_worst_of_plain_stories():
  draw = rollouts.best_of_search(TASK, AUTHOR, AUTHOR, Coherence(), batch_size=16, beams=2, branches=4)
  models = {'policy': PARAMS(), 'author': PARAMS(), 'judge': {}}
  rows, _ = jax.jit(draw.draw)(models, {}, jax.random.key(3))
  problems = {'before': rows['tokens'][:, 2] - 2}  # the last event of the opening
  follow = TASK.coherent(problems, rows['tokens'][:, 4:]).sum(axis=1)
  best, worst = sides(follow)
  np.testing.assert_array_equal(sides(rows['tokens'][:, :4])[0], sides(rows['tokens'][:, :4])[1])
  counts = sides(rows['weights'])[0] > 0
  assert counts.any() and np.all(np.asarray(best > worst)[np.asarray(counts)])
