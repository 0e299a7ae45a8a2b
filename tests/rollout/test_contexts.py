"""Contexts that are rewritten: other rows of the same episode, and nothing else about it changes."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.advantages import groups
from rlx.advantages.turns import of_trajectories
from rlx.engine import sample as engine
from rlx.engine import turns as episodes
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.engine.turns import Turns
from rlx.envs.worlds.rooms import rooms
from rlx.errors import ConfigError
from rlx.evaluation import turns as evaluation
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.rollout import contexts
from rlx.types import check
from tests.once import once

ROWS, GROUP_SIZE, TURNS = 3, 2, Turns(turn_tokens=2, max_turns=14)
DECODING = Decoding(
    max_tokens=30, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0
)


def counting(task):
  """Every turn is worth its number, and one in twelve is the last."""

  def act(state, action, length, key):
    reply = task.act(state['inner'], action, length, key)
    count = state['count'] + 1
    return reply._replace(
        state={'inner': reply.state, 'count': count}, reward=1.0 * count,
        ended=jax.random.bernoulli(key, 1 / 12),
    )

  start = lambda problem: {'inner': task.start(problem), 'count': jnp.int32(0)}
  return dataclasses.replace(task, act=act, start=start)


WORLD = counting(rooms(height=1, width=2, num_mazes=1, loops=0, num_keys=1, held_out_share=0.5))
MODEL = LanguageModel(TransformerConfig(
    vocab_size=WORLD.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8,
    mlp_size=32, context_length=64,
))
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))
CONTEXTS = {
    'last_turns': contexts.last_turns(WORLD, rows=ROWS, turns=1),
    'without_old_observations': contexts.without_old_observations(WORLD, rows=ROWS),
    'summary': contexts.summary(WORLD, rows=ROWS, marker='>', tokens=3),
}
in_contexts = pytest.mark.parametrize('name', [
    pytest.param(name, marks=() if name == 'summary' else pytest.mark.slow) for name in CONTEXTS
])


@functools.cache
def drawn(name):
  problems = WORLD.sample(jax.random.key(1), 6, False)
  batch = jax.jit(lambda params: episodes.sample(
      params, MODEL, WORLD, problems, jax.random.key(2), group_size=GROUP_SIZE, decoding=DECODING,
      turns=TURNS, num_slots=5, world_key=jax.random.key(3), rewriting=CONTEXTS[name],
  ))(PARAMS())
  return jax.tree.map(np.asarray, batch)


def kept(name, row):
  """What should stand behind the prompt of the row that follows, without the last observation."""
  tokens, heard = row['tokens'], row['valid'] & ~row['action_mask']
  turns, last = row['turns'], row['turns'][row['valid']].max()
  behind = np.arange(len(tokens)) >= row['prompt_lengths']
  keep = {
      'last_turns': behind & (turns == last),
      'without_old_observations': behind & row['valid'] & (~heard | (turns < 0) | (turns == last)),
      'summary': row['action_mask'] & (turns == last),
  }[name]
  return tokens[keep & row['valid']][-(DECODING.max_tokens // 2):]


@in_contexts
def test_rows_follow_each_other(name):
  batch = drawn(name)
  check(batch)
  used = ~np.isnan(batch['rewards']).reshape(-1, ROWS)
  assert used[:, 0].all() and used[:, 1].any() and not used.all()
  for episode in range(len(used)):
    rows = [{k: x[episode * ROWS + i] for k, x in batch.items()} for i in range(ROWS) if used[episode, i]]
    earned = np.concatenate([row['token_rewards'][row['token_rewards'] > 0] for row in rows])
    np.testing.assert_array_equal(earned, np.arange(1, len(earned) + 1))  # the world has gone on
    assert all(row['rewards'] == earned.sum() for row in rows)
    assert len(earned) == batch['turns/mean'][episode * ROWS]
    for before, after in zip(rows, rows[1:], strict=False):
      expected = kept(name, before)
      start = after['prompt_lengths']
      np.testing.assert_array_equal(after['tokens'][start : start + len(expected)], expected)
      assert not after['action_mask'][start : start + len(expected)].any()
      assert (after['turns'][start : start + len(expected)] == -1).all()
  unused = ~used.reshape(-1)
  assert not batch['action_mask'][unused].any()


@in_contexts
def test_a_replay_is_the_sampler_to_the_bit(name):
  batch = drawn(name)
  logprobs = jax.jit(functools.partial(
      engine.replay, PARAMS(), MODEL, group_size=GROUP_SIZE * ROWS, decoding=DECODING, num_slots=5
  ))(batch)
  np.testing.assert_array_equal(logprobs, batch['sampler_logprobs'])


def test_a_summary_is_said_and_not_answered():
  batch = drawn('summary')
  asked = batch['valid'] & ~batch['action_mask'] & (batch['tokens'] == WORLD.encode('>')[0])
  asked &= np.arange(asked.shape[1])[None] >= batch['prompt_lengths'][:, None]
  row, column = np.argwhere(asked)[0]
  said = batch['action_mask'][row, column + 1 :]
  assert 1 <= said.sum() <= 3 and said[: said.sum()].all()
  assert not batch['token_rewards'][row, column + 1 :].any()


def test_an_episode_counts_once_in_its_group():
  rewards = jnp.array([1.0, 1, jnp.nan, 0, jnp.nan, jnp.nan, 0, 0, 0])
  trajectories, of = jnp.arange(9) // 3, jnp.zeros(9, jnp.int32)
  advantages = of_trajectories(rewards, of, trajectories, inner=groups.centred)
  np.testing.assert_allclose(advantages, [2 / 3, 2 / 3, 0, -1 / 3, 0, 0, -1 / 3, -1 / 3, -1 / 3], atol=1e-6)


def test_what_does_not_fit_is_refused():
  with pytest.raises(ConfigError, match="marker='~' is no single character"):
    contexts.summary(WORLD, rows=2, marker='~', tokens=3)
  with pytest.raises(ValueError, match='decoding.max_tokens=12: raise it'):
    episodes.check(WORLD, dataclasses.replace(DECODING, max_tokens=12), TURNS, CONTEXTS['summary'])


@pytest.mark.slow
def test_a_mesh_rewrites_the_same():
  problems = WORLD.sample(jax.random.key(1), 6, False)
  sample = lambda params: episodes.sample(
      params, MODEL, WORLD, problems, jax.random.key(2), group_size=GROUP_SIZE, decoding=DECODING,
      turns=TURNS, num_slots=5, world_key=jax.random.key(3), rewriting=CONTEXTS['summary'],
  )
  mesh = sharding.make_mesh(data=4, fsdp=2, tensor=1)
  with jax.set_mesh(mesh):
    params = jax.device_put(PARAMS(), sharding.shardings(PARAMS(), mesh, MODEL.axes))
    batch = jax.device_get(jax.jit(sample)(params))
  for name, x in drawn('summary').items():
    np.testing.assert_allclose(batch[name], x, rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.slow
def test_an_evaluation_goes_on_where_a_row_is_full():
  """Episodes that the room cuts off at one row go on in the next one, and each counts once."""
  policy = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))
  how = dict(problems=6, num_slots=0, turn_tokens=2, max_turns=14)

  def metrics(evaluation):
    answer = jax.jit(lambda params: evaluation.ask({'policy': params}, {}))(PARAMS())
    return evaluation.read(jax.tree.map(np.asarray, answer))

  cut, _ = metrics(evaluation.episodes(WORLD, policy, 0, **how))
  context = functools.partial(contexts.last_turns, rows=ROWS, turns=1)
  whole, told = metrics(evaluation.rewritten_episodes(WORLD, policy, 6 * ROWS, context=context, **how))
  assert whole['turns'] > cut['turns'] and 1 < whole['rows'] <= ROWS
  assert len(told) == round(6 * whole['rows']), 'rows that were not needed are not shown'
