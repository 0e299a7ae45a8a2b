"""Episodes of turns: one turn is a completion, and what is said depends on no slot, neighbour or padding."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.engine import sample as engine
from rlx.engine import turns as episodes
from rlx.engine.decoding import Decoding
from rlx.engine.packing import Packing
from rlx.engine.turns import Turns
from rlx.envs.sorting import sorting
from rlx.envs.turns import Reply, one_turn
from rlx.envs.worlds.rooms import rooms
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.types import check

KEY, WORLD_KEY = jax.random.key(3), jax.random.key(4)
DECODING = Decoding(
    max_tokens=30, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0
)
ROOMS = rooms(height=2, width=2, num_mazes=2, loops=1, num_keys=1, held_out_share=0.2)
TURNS = Turns(turn_tokens=2, max_turns=9)
GROUP_SIZE = 3


def chatty(task):
  """The world with replies whose length is a matter of chance, up to nothing, with end tokens among them; one
  action in three ends it, and state and reward count the actions."""

  def act(state, action, length, key):
    reply = task.act(state['inner'], action, length, key)
    kept = jax.random.randint(key, (), 0, reply.length + 1)
    return Reply(
        state={'inner': reply.state, 'count': state['count'] + 1},
        observation=jnp.where(action[0] % 2 == 0, reply.observation, 1), length=kept,
        reward=1.0 + state['count'], ended=jax.random.bernoulli(jax.random.fold_in(key, 1), 0.3),
        understood=action[0] % 3 == 0, info=reply.info,
    )

  start = lambda problem: {'inner': task.start(problem), 'count': jnp.int32(0)}
  return dataclasses.replace(task, act=act, start=start)


WORLD = chatty(ROOMS)
MODEL = LanguageModel(TransformerConfig(
    vocab_size=ROOMS.vocab_size, num_layers=1, width=16, num_heads=2, num_kv_heads=2, head_size=8,
    mlp_size=32, context_length=64,
))
PARAMS = MODEL.init(jax.random.key(0))
PROBLEMS = WORLD.sample(jax.random.key(1), 5, False)


@functools.partial(jax.jit, static_argnames=('num_slots', 'decoding', 'group_size', 'turns'))
def drawn_with(problems, ids=None, *, num_slots, decoding=DECODING, group_size=GROUP_SIZE, turns=TURNS):
  return episodes.sample(
      PARAMS, MODEL, WORLD, problems, KEY, group_size=group_size, decoding=decoding, turns=turns,
      num_slots=num_slots, sequence_ids=ids, world_key=WORLD_KEY,
  )


@functools.cache
def drawn(num_slots=4):
  return jax.tree.map(np.asarray, drawn_with(PROBLEMS, num_slots=num_slots))


def assert_same(batch, other):
  for name in batch.keys() - {'sampler_logprobs'}:
    np.testing.assert_array_equal(batch[name], other[name], err_msg=name)
  np.testing.assert_allclose(batch['sampler_logprobs'], other['sampler_logprobs'], rtol=1e-5, atol=1e-5)


def test_columns_are_those_of_the_table_and_episodes_are_ragged():
  batch = drawn()
  check(batch)
  counts = batch['turns/mean']
  assert counts.min() == 1 and counts.max() > 3 and batch['truncated'].any() and not batch['truncated'].all()
  assert 0 < batch['understood'][batch['action_mask']].mean() < 1
  heard = batch['valid'] & ~batch['action_mask'] & (batch['turns'] >= 0)
  assert (batch['tokens'][heard] == 1).any(), 'no end token is in an observation: no test'
  assert not batch['tokens'][~batch['valid']].any()
  assert not batch['sampler_logprobs'][~batch['action_mask']].any()


def test_rows_are_what_a_plain_loop_makes_of_the_same_world():
  """Each episode again, turn by turn in Python, with the actions that are in the row."""
  batch = drawn()
  act, identify = jax.jit(WORLD.act), jax.jit(WORLD.state_id)
  for row in range(0, len(batch['tokens']), 2):
    one = {name: x[row] for name, x in batch.items()}
    problem = jax.tree.map(lambda x, row=row: x[row // GROUP_SIZE], PROBLEMS)
    state, column, total, length = WORLD.start(problem), int(one['prompt_lengths']), 0.0, one['valid'].sum()
    key = jax.random.fold_in(WORLD_KEY, row)
    for turn in range(TURNS.max_turns):
      action = one['tokens'][column : column + 2]
      said = 1 if action[0] == 1 or column + 1 == length else 2
      places = slice(column, column + said)
      assert one['action_mask'][places].all() and (one['turns'][places] == turn).all()
      assert (one['anchors'][places] == identify(state)).all()
      reply = act(state, jnp.asarray(action), said, jax.random.fold_in(key, turn))
      assert one['token_rewards'][column + said - 1] == reply.reward == turn + 1
      assert (one['understood'][places] == reply.understood).all()
      total, state, column = total + float(reply.reward), reply.state, column + said
      room = one['prompt_lengths'] + DECODING.max_tokens
      if reply.ended or turn + 1 == TURNS.max_turns or column + reply.length >= room:
        break
      heard = slice(column, column + int(reply.length))
      np.testing.assert_array_equal(one['tokens'][heard], reply.observation[: reply.length])
      assert not one['action_mask'][heard].any() and (one['turns'][heard] == turn).all()
      column += int(reply.length)
    assert column == length and one['rewards'] == total and one['truncated'] == (not reply.ended)


@pytest.mark.parametrize('num_slots', [pytest.param(1, marks=pytest.mark.slow), 0])
def test_what_is_said_depends_on_no_slot_count(num_slots):
  assert_same(drawn(num_slots), drawn())


@pytest.mark.slow
def test_order_and_neighbours_change_no_bit():
  order = np.array([3, 0, 4, 1, 2])
  ids = (order[:, None] * GROUP_SIZE + np.arange(GROUP_SIZE)).reshape(-1)
  other = drawn_with(jax.tree.map(lambda x: x[order], PROBLEMS), jnp.asarray(ids), num_slots=4)
  for name in ('tokens', 'sampler_logprobs', 'turns', 'anchors', 'token_rewards', 'truncated', 'rewards'):
    np.testing.assert_array_equal(other[name], drawn()[name][ids], err_msg=name)


BLOCKS = TURNS._replace(read_tokens=3)


@pytest.mark.slow
def test_what_is_read_at_once_decides_nothing():
  assert_same(drawn_with(PROBLEMS, num_slots=4, turns=BLOCKS), drawn())


@pytest.mark.slow
def test_order_and_neighbours_change_no_bit_where_blocks_are_read():
  order = np.array([3, 0, 4, 1, 2])
  ids = (order[:, None] * GROUP_SIZE + np.arange(GROUP_SIZE)).reshape(-1)
  other = drawn_with(
      jax.tree.map(lambda x: x[order], PROBLEMS), jnp.asarray(ids), num_slots=4, turns=BLOCKS
  )
  expected = drawn_with(PROBLEMS, num_slots=4, turns=BLOCKS)
  for name in ('tokens', 'sampler_logprobs', 'turns', 'rewards'):
    np.testing.assert_array_equal(other[name], expected[name][ids], err_msg=name)


@pytest.mark.slow
def test_wider_prompts_change_nothing():
  wide = {**PROBLEMS, 'prompts': jnp.pad(PROBLEMS['prompts'], ((0, 0), (0, 4)), constant_values=7)}
  other = drawn_with(wide, num_slots=4)
  width = drawn()['tokens'].shape[1]
  assert_same({name: x[:, :width] if x.ndim == 2 else x for name, x in other.items()}, drawn())


@functools.partial(jax.jit, static_argnames=('num_slots', 'group_size', 'decoding'))
def replay(batch, *, num_slots, group_size=GROUP_SIZE, decoding=DECODING):
  return engine.replay(
      PARAMS, MODEL, batch, group_size=group_size, decoding=decoding, num_slots=num_slots
  )


def test_a_replay_is_the_sampler_to_the_bit_and_the_score_near_it():
  batch = drawn()
  np.testing.assert_array_equal(replay(batch, num_slots=4), batch['sampler_logprobs'])
  for packing in (None, Packing(columns=48, rows=2, share_prompts=True)):
    score = functools.partial(engine.score, decoding=DECODING, chunk_size=32, packing=packing)
    logprobs, entropy = jax.jit(score, static_argnums=1)(PARAMS, MODEL, batch)
    np.testing.assert_allclose(logprobs, batch['sampler_logprobs'], atol=1e-5)
    assert not np.asarray(entropy)[~batch['action_mask']].any()


def test_only_actions_have_gradients_and_meet_the_output_matrix(monkeypatch):
  batch, counted = drawn(), []
  inner = engine.linear_logprob

  def spy(*arguments, num_counted=None, **how):
    counted.append(num_counted)
    return inner(*arguments, num_counted=num_counted, **how)

  monkeypatch.setattr(engine, 'linear_logprob', spy)
  weights = jax.random.normal(jax.random.key(9), batch['tokens'].shape)

  def total(params, batch):
    logprobs, _ = engine.score(params, MODEL, batch, decoding=DECODING, chunk_size=32)
    return jnp.sum(logprobs * weights)

  gradient = jax.jit(jax.grad(total))(PARAMS, batch)
  assert len(counted) == 1 and counted[0] is not None
  plain = {name: batch[name] for name in batch.keys() - {'trajectories'}}  # all columns, and then the mask
  counted.clear()
  expected = jax.jit(jax.grad(total))(PARAMS, plain)
  assert counted == [None]
  near = functools.partial(np.testing.assert_allclose, atol=2e-5, rtol=1e-4)
  jax.tree.map(near, gradient, expected)
  garbage = {**batch, 'tokens': np.where(batch['valid'], batch['tokens'], 5)}
  again = jax.jit(jax.grad(total))(PARAMS, garbage)
  jax.tree.map(np.testing.assert_array_equal, again, gradient)


SORTING = sorting(length=3, held_out_share=0.1)
OF_ONE_TURN = dataclasses.replace(DECODING, max_tokens=4)
SORTER = LanguageModel(dataclasses.replace(MODEL.shape, vocab_size=SORTING.vocab_size))


@pytest.mark.slow
def test_a_world_of_one_turn_gives_the_rows_of_completions():
  """With the same slots to the bit; beside all rows at once up to rounding."""
  params, problems = SORTER.init(jax.random.key(0)), SORTING.sample(jax.random.key(1), 16, False)
  how = dict(group_size=2, decoding=OF_ONE_TURN)
  of_text = functools.partial(
      engine.sample, params, SORTER, problems['prompts'], problems['prompt_lengths'], KEY, **how
  )
  world = one_turn(SORTING)
  batch = jax.jit(functools.partial(
      episodes.sample, model=SORTER, task=world, turns=Turns(4, 1), num_slots=5, world_key=WORLD_KEY, **how
  ))(params, problems=problems, key=KEY)
  expected = jax.jit(functools.partial(of_text, num_slots=5))()
  for name, x in expected.items():
    np.testing.assert_array_equal(batch[name], x, err_msg=name)
  assert_same({name: batch[name] for name in expected}, jax.jit(functools.partial(of_text, num_slots=0))())
  repeated = jax.tree.map(lambda x: jnp.repeat(x, 2, axis=0), problems)
  verdicts = SORTING.verify(repeated, engine.completions_of(expected, OF_ONE_TURN))
  np.testing.assert_array_equal(batch['rewards'], verdicts)
  assert not expected['truncated'].all() and expected['truncated'].any()


@pytest.mark.slow
@pytest.mark.parametrize('shape', [dict(data=4, fsdp=2, tensor=1)])
def test_a_mesh_says_the_same_and_shares_the_work(shape):
  """15 rows on 8 devices: each shard has two, and does about an eighth of the work."""
  expected = drawn()
  mesh = sharding.make_mesh(**shape)
  sample = lambda params: episodes.sample(
      params, MODEL, WORLD, PROBLEMS, KEY, group_size=GROUP_SIZE, decoding=DECODING, turns=TURNS, num_slots=0,
      world_key=WORLD_KEY,
  )
  alone = jax.jit(sample).lower(PARAMS).compile().cost_analysis()['flops']
  with jax.set_mesh(mesh):
    params = jax.device_put(PARAMS, sharding.shardings(PARAMS, mesh, MODEL.axes))
    compiled = jax.jit(sample).lower(params).compile()
    assert_same(jax.device_get(compiled(params)), expected)
  assert compiled.cost_analysis()['flops'] < 0.3 * alone


@pytest.mark.slow
def test_a_population_is_its_members():
  keys = jax.random.split(jax.random.key(8), 2)
  sample = lambda key: episodes.sample(
      PARAMS, MODEL, WORLD, PROBLEMS, key, group_size=1, decoding=DECODING, turns=TURNS, num_slots=2,
      world_key=key,
  )
  together = jax.jit(jax.vmap(sample))(keys)
  for i, key in enumerate(keys):
    assert_same(jax.tree.map(lambda x, i=i: x[i], together), jax.jit(sample)(key))


def test_experts_show_episodes_with_the_same_columns():
  turns = Turns(2, 12)
  show = functools.partial(
      episodes.demonstrate, ROOMS, decoding=dataclasses.replace(DECODING, max_tokens=80), turns=turns,
      most_turns=12,
  )
  batch = jax.jit(show)(PROBLEMS, WORLD_KEY)
  check(batch)
  assert batch.keys() == drawn().keys()
  assert np.all(batch['rewards'] == 1) and np.all(batch['episode/success'] == 1)
  assert not batch['truncated'].any()
  assert np.all(np.asarray(batch['understood'])[np.asarray(batch['action_mask'])])


@pytest.mark.parametrize(('turns', 'room', 'said'), [
    (Turns(31, 2), 30, 'turn_tokens=31, decoding.max_tokens=30'),
    (Turns(2, 0), 30, 'max_turns=0'),
    (Turns(2, 3), 7, 'observations of up to 7 tokens do not fit decoding.max_tokens=7'),
])
def test_what_does_not_fit_is_refused_in_one_line(turns, room, said):
  decoding = dataclasses.replace(DECODING, max_tokens=room)
  with pytest.raises(ValueError, match=said) as error:
    episodes.check(ROOMS, decoding, turns)
  assert '\n' not in str(error.value)
