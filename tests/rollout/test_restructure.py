"""Rewritten problems: what is hard and medium, in which form it comes back, and that the batch is whole."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.skills import skills
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import restructure
from rlx.types import check

SKILLS = skills(modulus=2, num_skills=1, used=(0,), min_steps=2, max_steps=2, held_out_share=0.5)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=SKILLS.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8,
    mlp_size=16, context_length=16,
))
DECODING = Decoding(
    max_tokens=SKILLS.answer_columns, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel',
    eos_ids=SKILLS.eos_ids, pad_id=0,
)
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
GROUP, PROBLEMS = 4, 6
RIGHT = jnp.array([4, 1, 2, 0, 3, 4])  # of a group's four rows, by the number of the problem


def numbered(key, num, held_out):
  return {**SKILLS.sample(key, num, held_out), 'numbers': jnp.arange(num)}


TASK = dataclasses.replace(SKILLS, sample=numbered)


def planned(models, batch, key):
  """As many right rows of each problem as the table above says, whatever they say."""
  del models, key
  place = jnp.arange(batch['numbers'].shape[0]) % GROUP
  return {**batch, 'rewards': (place < RIGHT[batch['numbers']]).astype(jnp.float32)}


def rollout(num_restructured, groups=PROBLEMS, hard_max=0.3, medium_max=0.7):
  return restructure.restructured(
      TASK, POLICY, planned, batch_size=(groups + num_restructured) * GROUP, group_size=GROUP,
      num_slots=0, num_restructured=num_restructured, hard_form='hinted', medium_form='decomposed',
      hard_max=hard_max, medium_max=medium_max,
  )


def drawn(num_restructured):
  params = MODEL.init(jax.random.key(0))
  batch, _ = jax.jit(rollout(num_restructured).draw)({'policy': params}, {}, jax.random.key(3))
  check(batch)
  logprobs, _ = POLICY.score(params, batch)
  np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], atol=1e-5)
  return jax.tree.map(np.asarray, batch)


@pytest.mark.slow
def test_hard_ones_come_back_hinted_and_medium_ones_decomposed():
  """Problems 1 and 3 are hard (1 and 0 of 4), 2 is medium, and a fourth place is for the first easy one."""
  batch = drawn(4)
  np.testing.assert_array_equal(batch['groups'], np.repeat(np.arange(10), GROUP))
  numbers = batch['numbers'][::GROUP]
  np.testing.assert_array_equal(numbers, [0, 1, 2, 3, 4, 5, 1, 2, 3, 0])
  np.testing.assert_array_equal(batch['hard'][::GROUP], np.isin(numbers, [1, 3]))
  np.testing.assert_array_equal(batch['restructured'][::GROUP], [False] * 6 + [True] * 3 + [False])
  own, hinted, decomposed = 4, 6, 6
  np.testing.assert_array_equal(
      batch['prompt_lengths'][::GROUP], [own] * 6 + [hinted, decomposed, hinted, own]
  )
  semicolons = (batch['tokens'] == TASK.alphabet.index(';') + 2)[:, :6] & ~batch['action_mask'][:, :6]
  np.testing.assert_array_equal(semicolons.sum(axis=1)[::GROUP], [0] * 7 + [2] + [0] * 2)
  solution = {n: batch['solutions'][batch['numbers'] == n] for n in range(PROBLEMS)}
  assert all((x == x[:1]).all() for x in solution.values()), 'the answer is kept'


@pytest.mark.slow
def test_the_first_are_taken_where_there_are_more():
  np.testing.assert_array_equal(drawn(2)['numbers'][PROBLEMS * GROUP :: GROUP], [1, 2])


def test_grades_by_hand():
  rewards = jnp.array([1.0, 1, 0, 1, 0, 0])
  hard, medium = restructure.graded(rewards, 2, hard_max=0.0, medium_max=0.5)
  assert hard.tolist() == [False, False, True] and medium.tolist() == [False, True, False]


@pytest.mark.parametrize('make, words', [
    (lambda: rollout(7), 'num_restructured=7 of 13 groups'),
    (lambda: rollout(0), 'num_restructured=0'),
    (lambda: rollout(2, hard_max=0.8), 'hard_max=0.8, medium_max=0.7'),
])
def test_sizes_that_do_not_fit_are_told(make, words):
  with pytest.raises(ValueError, match=words):
    make()
