"""Partial rollouts: rows that took several train steps are those of one go, in whole groups, not too old."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_sample import DECODINGS, MODEL, PARAMS, VOCAB

from rlx import types
from rlx.engine import sample as engine
from rlx.engine.speaker import Scoring, Speaker
from rlx.envs.text import Task
from rlx.rollout.partial import partial_completions

DECODING, GROUP_SIZE, NUM_GROUPS, KEPT = DECODINGS['plain'], 2, 4, 3
POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=16, packing=None))
LONG = POLICY.saying(max_tokens=13)


def numbered_prompts():
  """Prompts of 1 to 3 random tokens; the first of a problem's columns is where it came from."""

  def sample(key, num, held_out):
    del held_out
    length_key, token_key = jax.random.split(key)
    lengths = jax.random.randint(length_key, (num,), 1, 4)
    tokens = jax.random.randint(token_key, (num, 3), 2, VOCAB)
    prompts = jnp.where(jnp.arange(3)[None] < lengths[:, None], tokens, 0)
    return {'prompts': prompts, 'prompt_lengths': lengths, 'sums': prompts.sum(axis=1)}

  return Task(alphabet='012345', prompt_columns=3, answer_columns=1, sample=sample, verify=None)


@functools.cache
def make(max_age=2, unfinished_groups=KEPT, num_slots=3, policy=POLICY):
  rollout = partial_completions(
      numbered_prompts(), policy, batch_size=NUM_GROUPS * GROUP_SIZE, group_size=GROUP_SIZE,
      num_slots=num_slots, unfinished_groups=unfinished_groups, max_age=max_age,
  )
  return rollout, jax.jit(rollout.draw)


def steps(num_steps, models=None, **arguments):
  """Batches and worlds of some train steps; `models(step)` are the parameters of each."""
  rollout, draw = make(**arguments)
  world, out = rollout.begin(jax.random.key(7)), []
  for i in range(num_steps):
    policy = PARAMS if models is None else models(i)
    batch, world = draw({'policy': policy}, world, jax.random.key(100 + i))
    types.check(batch)
    out.append((jax.tree.map(np.asarray, batch), world))
  return out


def at_one_go(world, batch, numbers):
  """The rows of a batch, sampled without interruption: their groups have these numbers."""
  ids = (np.array(numbers)[:, None] * GROUP_SIZE + np.arange(GROUP_SIZE)).reshape(-1)
  prompts = np.where(
      np.arange(3) < batch['prompt_lengths'][::GROUP_SIZE, None], batch['tokens'][::GROUP_SIZE, :3], 0
  )
  sample = jax.jit(engine.sample, static_argnums=1, static_argnames=('group_size', 'decoding', 'num_slots'))
  return sample(
      PARAMS, MODEL, prompts, batch['prompt_lengths'][::GROUP_SIZE], world['noise_key'],
      group_size=GROUP_SIZE, decoding=DECODING, num_slots=3, sequence_ids=ids,
  )


def numbers_of(history, index):
  """Which groups a batch holds: those that were there and are not kept."""
  before = np.asarray(history[index - 1][1]['pool'].number) if index else np.arange(KEPT)
  drawn = int(history[index][1]['drawn'])
  there = np.concatenate([before, np.arange(drawn - NUM_GROUPS, drawn)])
  return [n for n in there if n not in np.asarray(history[index][1]['pool'].number)]


@pytest.mark.slow
def test_rows_that_were_interrupted_are_those_of_one_go():
  history = steps(5)
  interrupted = 0
  for index, (batch, world) in enumerate(history):
    numbers = numbers_of(history, index)
    assert len(numbers) == NUM_GROUPS
    expected = at_one_go(world, batch, numbers)
    for name in ('tokens', 'action_mask', 'truncated', 'groups', 'valid'):
      np.testing.assert_array_equal(batch[name], expected[name], err_msg=name)
    np.testing.assert_allclose(
        batch['sampler_logprobs'], expected['sampler_logprobs'], rtol=1e-5, atol=1e-5
    )
    versions = np.where(batch['action_mask'], batch['policy_version'], index)
    interrupted += np.any(versions.min(axis=1) != versions.max(axis=1))
  assert interrupted, 'no row was ever carried over: the test shows nothing'


def test_every_group_comes_once_and_whole():
  history = steps(6)
  seen = [n for index in range(6) for n in numbers_of(history, index)]
  assert len(seen) == len(set(seen)) == 6 * NUM_GROUPS
  for batch, _ in history:
    np.testing.assert_array_equal(batch['groups'], np.arange(NUM_GROUPS).repeat(GROUP_SIZE))
    ends = np.isin(batch['tokens'], DECODING.eos_ids) & batch['action_mask']
    full = batch['action_mask'].sum(axis=1) == DECODING.max_tokens
    assert np.all(ends.any(axis=1) | full)
    sums = np.where(batch['valid'] & ~batch['action_mask'], batch['tokens'], 0).sum(axis=1)
    np.testing.assert_array_equal(batch['sums'], sums)


@pytest.mark.slow
def test_no_token_is_older_than_it_may_be():
  """Rows of up to 13 tokens, where most are short: a long one waits, but not longer than the cap says."""
  oldest = {}
  for max_age in (1, 100):
    ages = []
    for index, (batch, world) in enumerate(steps(8, max_age=max_age, policy=LONG, num_slots=100)):
      mask, versions = batch['action_mask'], batch['policy_version']
      np.testing.assert_array_equal(versions[~mask], -1)
      ages.append((index - versions[mask]).max())
      mean = np.array([(index - v[m]).mean() for v, m in zip(versions, mask, strict=True)])
      np.testing.assert_allclose(batch['rollout/token_age'], mean, rtol=1e-6)
      assert np.all(np.asarray(world['pool'].age) <= max_age)
    oldest[max_age] = max(ages)
  assert oldest[1] == 1 and oldest[100] > 1


def test_log_probs_are_of_the_policy_that_drew_the_token():
  """The parameters change from step to step; scored by the ones it names, each token has its log-prob."""
  scale = [1.0, 1.3, 0.8, 1.1, 0.9]
  models = lambda i: jax.tree.map(lambda x: x * scale[i], PARAMS)
  score = jax.jit(POLICY.score)
  for batch, _ in steps(5, models):
    scored = np.stack([
        score(models(i), batch)[0] for i in range(5)
    ])
    picked = np.take_along_axis(scored, np.maximum(batch['policy_version'], 0)[None], axis=0)[0]
    np.testing.assert_allclose(
        np.where(batch['action_mask'], picked, 0), batch['sampler_logprobs'], rtol=1e-4, atol=1e-4
    )


@pytest.mark.slow
def test_it_waits_for_fewer_steps_than_a_batch_at_one_go():
  """All slots at once: whole batches wait for their longest row, here only the first of many groups count."""
  whole, partial = [], []
  for batch, _ in steps(4, num_slots=100):
    lengths = batch['action_mask'].sum(axis=1)
    whole.append(lengths.max())
    newest = np.where(batch['action_mask'], batch['policy_version'], -1).max()
    partial.append(max((batch['policy_version'] == newest).sum(axis=1)))
  assert sum(partial) < sum(whole)


def test_numbers_that_do_not_go_together_are_one_clear_error():
  for arguments in ({'max_age': 0}, {'unfinished_groups': 5}, {'unfinished_groups': 0}, {'num_slots': 0}):
    with pytest.raises(ValueError, match=r'max_age=.* the last in 1\.\.4'):
      make(**arguments)
