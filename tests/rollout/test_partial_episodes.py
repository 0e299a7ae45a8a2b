"""Episodes that took several train steps, worlds included, are those of one go."""

import functools

import jax
import numpy as np
import pytest
from test_turns import DECODING, GROUP_SIZE, MODEL, PARAMS, WORLD

from rlx import types
from rlx.controllers.schedules import constant
from rlx.engine import turns as episodes
from rlx.engine.speaker import Scoring, Speaker
from rlx.engine.turns import Turns
from rlx.envs.sorting import sorting
from rlx.rollout import partial
from rlx.rollout.partial import partial_episodes

POLICY = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=16, packing=None))
NUM_GROUPS, KEPT, TURNS = 4, 3, {'turn_tokens': 2, 'max_turns': 9}


@functools.cache
def make(read_tokens=1, max_age=2, task=WORLD, turn_tokens=2):
  rollout = partial_episodes(
      task, POLICY, batch_size=NUM_GROUPS * GROUP_SIZE, group_size=GROUP_SIZE, num_slots=5,
      turn_tokens=turn_tokens, max_turns=functools.partial(constant, value=TURNS['max_turns']),
      unfinished_groups=KEPT, max_age=max_age, read_tokens=read_tokens,
  )
  return rollout, jax.jit(rollout.draw)


@functools.cache
def history(num_steps=5, **arguments):
  """Of some train steps: the batch, the world, and the numbers of the groups that the batch holds."""
  rollout, draw = make(**arguments)
  world, out, there = rollout.begin(jax.random.key(7)), [], np.arange(KEPT)
  for step in range(num_steps):
    batch, world = draw({'policy': PARAMS}, world, jax.random.key(100 + step))
    types.check(batch)
    there = np.concatenate([there, KEPT + step * NUM_GROUPS + np.arange(NUM_GROUPS)])
    kept = np.asarray(world['pool'].number)
    out.append((jax.tree.map(np.asarray, batch), world, [n for n in there if n not in kept]))
    there = kept
  return out


@functools.partial(jax.jit, static_argnums=2)
def at_one_go(problems, noise_key, read_tokens, ids):
  return episodes.sample(
      PARAMS, MODEL, WORLD, problems, noise_key, group_size=GROUP_SIZE, decoding=DECODING,
      turns=Turns(**TURNS, read_tokens=read_tokens), num_slots=4, sequence_ids=ids,
      world_key=jax.random.fold_in(noise_key, partial._WORLDS),
  )


def problems_of(batch):
  """The columns of a batch's problems, one a group."""
  names = WORLD.sample(jax.random.key(0), 1, False).keys() - {'prompts', 'prompt_lengths'}
  columns = {name: jax.tree.map(lambda x: x[::GROUP_SIZE], batch[name]) for name in names}
  lengths = batch['prompt_lengths'][::GROUP_SIZE]
  prompts = batch['tokens'][::GROUP_SIZE, : WORLD.prompt_columns]
  inside = np.arange(WORLD.prompt_columns) < lengths[:, None]
  return {**columns, 'prompts': np.where(inside, prompts, 0), 'prompt_lengths': lengths}


@pytest.mark.parametrize('read_tokens', [1, pytest.param(3, marks=pytest.mark.slow)])
def test_episodes_that_were_interrupted_are_those_of_one_go(read_tokens):
  interrupted = 0
  for index, (batch, world, numbers) in enumerate(history(read_tokens=read_tokens)):
    assert len(numbers) == NUM_GROUPS
    ids = (np.array(numbers)[:, None] * GROUP_SIZE + np.arange(GROUP_SIZE)).reshape(-1)
    expected = at_one_go(problems_of(batch), world['noise_key'], read_tokens, ids)
    for name in expected.keys() - {'sampler_logprobs'}:
      np.testing.assert_array_equal(batch[name], expected[name], err_msg=name)
    np.testing.assert_allclose(
        batch['sampler_logprobs'], expected['sampler_logprobs'], rtol=1e-5, atol=1e-5
    )
    assert np.all(batch['policy_version'][~batch['action_mask']] == -1)
    versions = np.where(batch['action_mask'], batch['policy_version'], index)
    interrupted += np.any(versions.min(axis=1) != versions.max(axis=1))
  assert interrupted, 'no episode was ever carried over: the test shows nothing'


def test_every_group_comes_once_and_none_is_too_old():
  steps = history()
  seen = [number for _, _, numbers in steps for number in numbers]
  assert len(seen) == len(set(seen)) == len(steps) * NUM_GROUPS
  for index, (batch, world, _) in enumerate(steps):
    np.testing.assert_array_equal(batch['groups'], np.arange(NUM_GROUPS).repeat(GROUP_SIZE))
    assert (index - batch['policy_version'][batch['action_mask']]).max() <= 2
    assert np.all(np.asarray(world['pool'].age) <= 2)


def test_sizes_that_do_not_fit_are_one_clear_error():
  with pytest.raises(ValueError, match='turn_tokens=31, decoding.max_tokens=30'):
    make(turn_tokens=31)
  with pytest.raises(ValueError, match='max_age=0, unfinished_groups=3'):
    make(max_age=0)


def test_a_text_task_is_a_world_of_one_turn():
  rollout, _ = make(task=sorting(length=3, held_out_share=0.2))
  world = rollout.begin(jax.random.key(0))
  batch, _ = jax.eval_shape(rollout.draw, {'policy': PARAMS}, world, jax.random.key(1))
  assert batch['turns/mean'].shape == (NUM_GROUPS * GROUP_SIZE,)
