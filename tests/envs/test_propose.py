"""Propose and verify: solutions, verdicts and rewards by role against a hand-written table."""

import re

import jax
import numpy as np
import pytest

from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.conformance import check_task
from rlx.envs.propose import propose
from rlx.envs.text import EOS_ID
from rlx.rewards.toys import by_role

GOOD = dict(modulus=5, length=3, proposals=3, wrong_share=0.5, held_out_share=0.25)
TASK = propose(**GOOD)
DECODING = Decoding(
    max_tokens=6, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(EOS_ID,),
    pad_id=0,
)
POLICY = Speaker(model=None, decoding=DECODING, scoring=None)


@pytest.mark.slow
def test_the_task_keeps_the_contract():
  check_task(TASK, num=500)


def test_solutions_are_pairs():
  problems = jax.tree.map(np.asarray, TASK.sample(jax.random.key(0), 400, False))
  wrong = 0
  for prompt, solution in zip(problems['prompts'], problems['solutions'], strict=True):
    digits, solution = TASK.decode(prompt)[:-1], TASK.decode(solution)
    answer = str(sum(map(int, digits)) % 5)
    assert re.fullmatch(rf'([0-4]~)?{answer}', solution) and not solution.startswith(f'{answer}~')
    wrong += len(solution) > 1
  assert 150 < wrong < 250


@pytest.mark.parametrize('answer, right, earned', [
    ('2$', 1, [1, 1]),
    ('3$', 0, [0, 0]),
    ('2~2$', 1, [1, 0, 1, 1]),
    ('3~2$', 1, [0, 1, 1, 1]),
    ('3~4~1~', 0, [0, 1, 0, 1, 0, 1]),
    ('~2$', 0, [0, 0, 0]),
    ('32$', 0, [0, 0, 0]),
    ('3~$', 0, [0, 1, 0]),
    ('$', 0, [0]),
])
def test_every_turn_earns_by_its_role(answer, right, earned):
  """The answer is 2; the end token says so of the digit before it, and the doubt says otherwise."""
  said = [EOS_ID if c == '$' else TASK.encode(c)[0] for c in answer]
  rows = np.zeros((1, 10), np.int32)
  rows[0, :4 + len(said)] = [*TASK.encode('130='), *said]
  places = np.arange(10) - 4
  mask = (places >= 0) & (places < len(said))
  batch = by_role(TASK, POLICY)({}, {
      'tokens': rows, 'action_mask': mask[None], 'prompt_lengths': np.array([4]),
      'answers': TASK.encode('2')[None],
  }, None)
  assert batch['rewards'].tolist() == [right]
  np.testing.assert_array_equal(batch['token_rewards'][0], [0] * 4 + earned + [0] * (6 - len(said)))
  np.testing.assert_array_equal(batch['turns'][0], np.where(mask, places, -1))
  np.testing.assert_array_equal(batch['roles'][0], np.where(mask, places % 2, -1))
  first = said[0] == TASK.encode('2')[0]
  assert batch['spoc/first_right'][0] == first and batch['spoc/corrected'][0] == (right and not first)
  assert np.isnan(batch['spoc/stopped_when_right'][0]) != first


@pytest.mark.parametrize('change, message', [
    ({'modulus': 2}, 'modulus=2'), ({'length': 0}, 'length=0'), ({'proposals': 1}, 'proposals=1'),
    ({'wrong_share': 2.0}, 'wrong_share=2.0'),
])
def test_bad_arguments_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    propose(**{**GOOD, **change})
