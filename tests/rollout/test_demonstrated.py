"""Groups that end with a demonstration, which some problems have and others have not."""

import functools

import algorithms_table as toy
import jax
import numpy as np
import pytest

from rlx.envs.arithmetic import arithmetic
from rlx.errors import ConfigError
from rlx.rollout.demonstrated import demonstrated, has_demonstration, measured
from rlx.types import check
from tests.once import once

ROWS, GROUP = 64, 4
PARAMS = once(lambda: {'policy': toy.MODEL.init(jax.random.key(0))})


@functools.cache
def drawn(make=demonstrated):
  rollout = make(toy.TASK, toy.POLICY, batch_size=ROWS, group_size=GROUP, num_slots=0, shown_share=0.5)
  draw = lambda key: rollout(PARAMS(), rollout.begin(key), key)[0]
  return jax.device_get(jax.jit(draw)(jax.random.key(1)))


@pytest.mark.slow
def test_the_last_row_of_a_group_is_the_solution_where_there_is_one():
  batch, samples = drawn(), drawn(measured)
  check(batch)
  offline = batch['offline']
  assert 0 < offline.sum() < ROWS // GROUP and (np.flatnonzero(offline) % GROUP == GROUP - 1).all()
  digits = batch['tokens'][offline]
  assert (digits[:, 1:] == digits[:, :1]).all() and batch['action_mask'][offline, 1:].all()
  for name, x in samples.items():
    np.testing.assert_array_equal(batch[name][~offline], x[~offline], err_msg=name)
  prompts = batch['tokens'][:, 0].reshape(-1, GROUP)
  assert (prompts == prompts[:, :1]).all(), 'a group shares its prompt'


def test_which_problems_have_one_is_a_matter_of_their_prompts_alone():
  batch = drawn()
  known = {}
  for prompt, has in zip(batch['tokens'][::GROUP, 0], batch['offline'][GROUP - 1 :: GROUP], strict=True):
    assert known.setdefault(int(prompt), bool(has)) == has


@pytest.mark.parametrize('share', [0.0, 0.1, 0.5, 1.0])
def test_a_share_of_all_problems_has_one(share):
  task = arithmetic(min_operand=1, max_operand=99, operators='+', held_out_share=0.1)
  prompts = task.sample(jax.random.key(0), 4096, False)['prompts']
  found = float(has_demonstration(prompts, share=share).mean())
  assert found == share if share in (0, 1) else abs(found - share) < 0.03


def test_the_expert_is_a_measure_for_its_whole_group():
  """Its log-probs are those that the policy gives the demonstration, at the columns of its tokens."""
  batch = drawn()
  logprobs, entropy = jax.device_get(jax.jit(toy.POLICY.score)(PARAMS()['policy'], batch))
  for first in range(0, ROWS, GROUP):
    last, group = first + GROUP - 1, slice(first, first + GROUP)
    if not batch['offline'][last]:
      assert not batch['expert_mask'][group].any() and not batch['expert_entropy'][group].any()
      continue
    mask = batch['expert_mask'][last]
    assert (batch['expert_mask'][group] == mask).all() and mask.tolist() == [False, True, True, True]
    np.testing.assert_allclose(
        batch['expert_logprobs'][group][:, mask], np.repeat(logprobs[last][None, mask], GROUP, 0), rtol=1e-5
    )
    np.testing.assert_allclose(batch['sampler_logprobs'][last], logprobs[last], rtol=1e-5)
    np.testing.assert_allclose(batch['expert_entropy'][group], entropy[last][mask].mean(), rtol=1e-5)


@pytest.mark.parametrize('wrong, says', [
    ({'group_size': 1}, 'group_size=1: a demonstration needs a sample beside it'),
    ({'shown_share': 1.5}, 'shown_share=1.5: from 0 to 1'),
    ({'group_size': 5}, 'group_size=5 does not divide'),
])
def test_sizes_that_do_not_fit_are_told(wrong, says):
  sizes = {'batch_size': ROWS, 'group_size': GROUP, 'num_slots': 0, 'shown_share': 0.5, **wrong}
  with pytest.raises((ConfigError, ValueError), match=says):
    demonstrated(toy.TASK, toy.POLICY, **sizes)
