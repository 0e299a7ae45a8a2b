"""The planted subsequence against plain Python, and the contract of a task."""

import re

import jax
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.conformance import check_task
from rlx.envs.planted import planted, planted_at
from rlx.envs.text import EOS_ID
from rlx.rewards.toys import tokens_left
from tests.cases import cases

GOOD = dict(letters=3, length=3, budget=6, heterogeneity=1.0, held_out_share=0.25)
TASK = planted(**GOOD)


@pytest.mark.parametrize('heterogeneity', cases([0.0, 1.0], at_once=[1.0]))
def test_the_task_keeps_the_contract(heterogeneity):
  check_task(planted(**{**GOOD, 'heterogeneity': heterogeneity}), num=500)


@pytest.mark.parametrize('heterogeneity, longest', [(0.0, 0), (0.5, 2), (1.0, 3)])
def test_experts_plant_as_late_as_heterogeneity_says(heterogeneity, longest):
  task = planted(**{**GOOD, 'heterogeneity': heterogeneity})  # round(1.5) = 2
  problems = jax.tree.map(np.asarray, task.sample(jax.random.key(0), 300, False))
  before = set()
  for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
    prompt, solution = task.decode(prompt), task.decode(solution)
    assert re.fullmatch('[a-c]{3}=', prompt) and re.fullmatch(f'[a-c]*{prompt[:3]}', solution)
    before.add(len(solution) - 3)
  assert before == set(range(longest + 1))


def tokens_of(answer):
  return [EOS_ID if c == '$' else 0 if c == '_' else TASK.encode(c)[0] for c in answer]


@pytest.mark.parametrize('answer, left', [
    ('aba$', 3), ('caba$', 2), ('ababa$', 3), ('cbcaba$', 0), ('abacc$', 3), ('abab$', 3), ('ccccaba$', None),
    ('ab$a', None), ('aba', None), ('aba_$', None), ('aab$', None), ('a=ba$', None), ('aba=$', None),
    ('$aba', None),
])
def test_a_token_is_left_for_each_one_behind_the_pattern(answer, left):
  """The budget is 6 letters, the pattern `aba`."""
  said, prompt = tokens_of(answer), tokens_of('aba=')
  rows = np.zeros((1, 14), np.int32)
  rows[0, :4 + len(said)] = prompt + said
  mask = (np.arange(14) >= 4) & (np.arange(14) < 4 + len(said))
  batch = {
      'tokens': rows, 'action_mask': mask[None], 'prompt_lengths': np.array([4]),
      'patterns': np.array([prompt[:3]]),
  }
  decoding = Decoding(
      max_tokens=10, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS_ID,),
      pad_id=0,
  )
  policy = Speaker(model=None, decoding=decoding, scoring=None)
  assert TASK.verify(batch, rows[:, 4:]).tolist() == [float(left is not None)]
  assert tokens_left(TASK, policy)({}, batch, None)['rewards'].tolist() == [left or 0]


def test_the_first_place_counts():
  patterns = np.array([[1, 2], [3, 3], [4, 5]])
  found = planted_at(patterns, np.array([[2, 1, 2, 1, 2], [3, 3, 3, 3, 3], [5, 4, 4, 3, 4]]))
  assert found.tolist() == [1, 0, -1]


@pytest.mark.parametrize('change, message', [
    ({'letters': 1}, 'letters=1'), ({'length': 0}, 'length=0'), ({'budget': 2}, 'budget=2'),
    ({'heterogeneity': 1.5}, 'heterogeneity=1.5'),
])
def test_bad_arguments_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    planted(**{**GOOD, **change})
