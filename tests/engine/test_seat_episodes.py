"""Seats: one of them is a world of turns, two of one model are two of copies, and nobody hears the unsaid."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import sharding
from rlx.engine import seats as engine
from rlx.engine import turns as turn_engine
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Scoring, Speaker
from rlx.engine.turns import Turns
from rlx.envs.seats import SeatReply, SeatTask, one_seat
from rlx.envs.worlds.rooms import rooms
from rlx.models.language import LanguageModel
from rlx.models.transformer import TransformerConfig
from rlx.types import check
from tests.once import once

KEY, WORLD_KEY = jax.random.key(3), jax.random.key(4)
DECODING = Decoding(
    max_tokens=24, min_tokens=0, temperature=1.0, top_k=0, top_p=1.0, sampler='gumbel', eos_ids=(1,), pad_id=0
)
TURNS = Turns(turn_tokens=3, max_turns=7)
ROOMS = rooms(height=2, width=2, num_mazes=2, loops=1, num_keys=1, held_out_share=0.2)
GROUP_SIZE = 3


def model_of(width=16):
  return LanguageModel(TransformerConfig(
      vocab_size=ROOMS.vocab_size, num_layers=1, width=width, num_heads=2, num_kv_heads=2, head_size=8,
      mlp_size=32, context_length=64,
  ))


MODEL = model_of()
PARAMS = once(lambda: MODEL.init(jax.random.key(0)))
OTHER = once(lambda: MODEL.init(jax.random.key(1)))
SPEAKER = Speaker(model=MODEL, decoding=DECODING, scoring=Scoring(chunk_tokens=64, packing=None))


def whispering(*, tells=lambda state, action: action[:1]):
  """Two seats with a secret each; what is said is told to the next seat, chance ends it, rewards count.

  The second speaks twice in a round. `tells` is what of an action is told.
  """
  order = (0, 1, 1)

  def sample(key, num, held_out):
    secrets = jax.random.randint(key, (num, 2), 2, ROOMS.vocab_size)
    return {
        'secrets': secrets, 'prompts': jnp.stack([secrets, jnp.full_like(secrets, 3)], axis=2),
        'prompt_lengths': jnp.full((num, 2), 2),
    }

  def act(state, action, length, key):
    seat = jnp.array(order)[state['turn'] % 3]
    nexts = jnp.array(order)[(state['turn'] + 1) % 3]
    word = jnp.broadcast_to(tells(state, action)[None], (2, 1)).astype(jnp.int32)
    return SeatReply(
        state={**state, 'turn': state['turn'] + 1}, observations=jnp.maximum(word, 1),
        lengths=(jnp.arange(2) == nexts).astype(jnp.int32), rewards=(1 + seat) * jnp.arange(1.0, 3.0),
        ended=jax.random.bernoulli(key, 0.2), understood=length > 1, info={'said': length},
    )

  start = lambda problem: {'secrets': problem['secrets'], 'turn': jnp.int32(0)}
  return SeatTask(
      alphabet=ROOMS.alphabet, prompt_columns=2, answer_columns=3, sample=sample, seats=('a', 'b'),
      order=order, observation_columns=1, start=start, act=act,
  )


WORLD = whispering()
PROBLEMS = once(lambda: WORLD.sample(jax.random.key(1), 5, False))
SAME = once(lambda: dict.fromkeys(WORLD.seats, PARAMS()))
IDS = np.arange(5 * GROUP_SIZE)


def play(params, problems, ids=IDS, *, world=WORLD, speakers=(SPEAKER,) * 2, group_size=GROUP_SIZE):
  return _play(params, problems, ids, world, speakers, group_size)  # all by one program


@functools.partial(jax.jit, static_argnums=(3, 4, 5))
def _play(params, problems, ids, world, speakers, group_size):
  return engine.sample(
      params, dict(zip(world.seats, speakers, strict=True)), world, problems, KEY, group_size=group_size,
      turns=TURNS, sequence_ids=ids, world_key=WORLD_KEY,
  )


@functools.cache
def drawn():
  return jax.tree.map(np.asarray, play(SAME(), PROBLEMS()))


def assert_bitwise(rows, other, but=()):
  for name in rows.keys() - {*but}:
    np.testing.assert_array_equal(rows[name], other[name], err_msg=name)


def test_one_seat_is_a_world_of_turns_to_the_bit():
  problems = ROOMS.sample(jax.random.key(1), 5, False)
  turns = Turns(turn_tokens=2, max_turns=6)
  expected = jax.jit(lambda: turn_engine.sample(
      PARAMS(), MODEL, ROOMS, problems, KEY, group_size=GROUP_SIZE, decoding=DECODING, turns=turns,
      num_slots=0, world_key=WORLD_KEY,
  ))()
  world = one_seat(ROOMS)
  at_table = world.sample(jax.random.key(1), 5, False)
  rows = jax.jit(lambda: engine.sample(
      {'policy': PARAMS()}, {'policy': SPEAKER}, world, at_table, KEY, group_size=GROUP_SIZE, turns=turns,
      world_key=WORLD_KEY,
  ))()['policy']
  assert_bitwise(rows, expected, but=('seats', 'payoffs'))
  assert expected['turns/mean'].max() > 2 and rows.keys() - expected.keys() == {'seats', 'payoffs'}


def test_columns_are_those_of_the_table_and_seats_speak_in_their_order():
  rows = drawn()
  for number, name in enumerate(WORLD.seats):
    check(rows[name])
    assert (rows[name]['seats'] == number).all()
    assert (rows[name]['groups'] == np.arange(15) // 3).all()
  spoke = {name: np.isfinite(rows[name]['rewards']) for name in WORLD.seats}
  assert spoke['a'].all() and not spoke['b'].all() and spoke['b'].any()
  actions = sum(np.where(spoke[name], rows[name]['turns'].max(axis=1) + 1, 0) for name in WORLD.seats)
  assert actions.max() > 4 and (actions <= TURNS.max_turns).all()


def test_rewards_are_those_of_all_actions_and_each_seat_hears_what_it_was_told():
  """Each episode again in Python, with the actions that are in the rows."""
  rows, order = drawn(), WORLD.order
  act = jax.jit(WORLD.act)
  for episode in range(15):
    one = {name: {k: x[episode] for k, x in rows[name].items()} for name in WORLD.seats}
    state, told, totals = WORLD.start(jax.tree.map(lambda x: x[episode // 3], PROBLEMS())), {}, np.zeros(2)
    column, last = dict.fromkeys(WORLD.seats, 2), {}
    for turn in range(TURNS.max_turns):
      name = WORLD.seats[order[turn % 3]]
      row = one[name]
      if name in told:
        assert row['tokens'][column[name]] == told.pop(name) and not row['action_mask'][column[name]]
        column[name] += 1
      begun = column[name]
      while row['action_mask'][column[name]] and column[name] - begun < 3:
        column[name] += 1
        if row['tokens'][column[name] - 1] == 1:
          break
      action, length = jnp.asarray(row['tokens'][begun : begun + 3]), column[name] - begun
      key = jax.random.fold_in(jax.random.fold_in(WORLD_KEY, episode), turn)
      reply = act(state, jnp.where(jnp.arange(3) < length, action, 0), length, key)
      totals, state, last[name] = totals + np.asarray(reply.rewards), reply.state, turn
      if reply.ended or turn + 1 == TURNS.max_turns:
        break
      told[WORLD.seats[order[(turn + 1) % 3]]] = int(reply.observations[0, 0])
    for seat, name in enumerate(WORLD.seats):
      assert one[name]['payoffs'] == totals[seat]
      if name in last:
        assert one[name]['rewards'] == totals[seat] and one[name]['truncated'] == (not reply.ended)
        np.testing.assert_allclose(one[name]['token_rewards'].sum(), totals[seat])
        assert one[name]['valid'].sum() == column[name]


def test_two_seats_of_one_model_are_two_of_copies():
  copies = {name: jax.tree.map(jnp.copy, PARAMS()) for name in WORLD.seats}
  for name, rows in play(copies, PROBLEMS()).items():
    assert_bitwise(rows, drawn()[name])


@pytest.mark.slow
def test_seats_have_parameters_and_shapes_of_their_own():
  other = play({**SAME(), 'b': OTHER()}, PROBLEMS())
  assert (other['b']['tokens'] != drawn()['b']['tokens']).any()
  np.testing.assert_array_equal(other['a']['tokens'][:, :3], drawn()['a']['tokens'][:, :3])
  wide = model_of(32)
  speakers = (SPEAKER, dataclasses.replace(SPEAKER, model=wide))
  rows = play({**SAME(), 'b': wide.init(jax.random.key(5))}, PROBLEMS(), speakers=speakers)
  assert np.isfinite(rows['b']['sampler_logprobs']).all()


@pytest.mark.slow
def test_what_is_not_said_to_a_seat_leaves_its_rows_as_they_are_to_the_bit():
  """A secret of seat `a` is changed, and what is told does not say it."""
  deaf = whispering(tells=lambda state, action: jnp.full(1, 2))
  before = play(SAME(), PROBLEMS(), world=deaf)
  hidden = {**PROBLEMS(), 'prompts': PROBLEMS()['prompts'].at[:, 0, 0].set(5)}
  after = play(SAME(), hidden, world=deaf)
  assert (before['a']['sampler_logprobs'] != after['a']['sampler_logprobs']).any()
  assert_bitwise(before['b'], after['b'])
  heard = play(SAME(), hidden)  # where it is told, it does matter
  assert (heard['b']['sampler_logprobs'] != drawn()['b']['sampler_logprobs']).any()


def test_order_and_neighbours_change_no_bit():
  order = np.array([3, 0, 4, 1, 2])
  ids = (order[:, None] * GROUP_SIZE + np.arange(GROUP_SIZE)).reshape(-1)
  other = play(SAME(), jax.tree.map(lambda x: x[order], PROBLEMS()), jnp.asarray(ids))
  for seat in WORLD.seats:
    for name in ('tokens', 'sampler_logprobs', 'turns', 'anchors', 'token_rewards', 'rewards'):
      np.testing.assert_array_equal(other[seat][name], drawn()[seat][name][ids], err_msg=name)


@pytest.mark.slow
def test_a_population_plays_what_its_members_play():
  stacked = jax.tree.map(lambda *x: jnp.stack(x), SAME(), dict.fromkeys(WORLD.seats, OTHER()))
  rows = jax.vmap(lambda params: play(params, PROBLEMS()))(stacked)
  for name in WORLD.seats:
    np.testing.assert_array_equal(rows[name]['tokens'][0], drawn()[name]['tokens'])


@pytest.mark.slow
@pytest.mark.parametrize('shape', [dict(data=2, fsdp=2, tensor=1)])
def test_a_mesh_plays_the_same(shape):
  with jax.set_mesh(sharding.make_mesh(**shape)):
    rows = jax.tree.map(np.asarray, jax.jit(lambda: engine.sample(
        SAME(), dict.fromkeys(WORLD.seats, SPEAKER), WORLD, PROBLEMS(), KEY, group_size=GROUP_SIZE,
        turns=TURNS, world_key=WORLD_KEY))())
  for name in WORLD.seats:
    np.testing.assert_array_equal(rows[name]['tokens'], drawn()[name]['tokens'])


def test_sizes_and_speakers_that_do_not_fit_are_said():
  ask = lambda speakers, turns=TURNS: engine.check(WORLD, engine.decoding_of(WORLD, speakers), turns)
  with pytest.raises(ValueError, match=r"\['b'\] have no model"):
    ask({'a': SPEAKER})
  with pytest.raises(ValueError, match=r"\['d'\] never speak"):
    ask({**dict.fromkeys(WORLD.seats, SPEAKER), 'd': SPEAKER})
  with pytest.raises(ValueError, match='turn_tokens=30'):
    ask(dict.fromkeys(WORLD.seats, SPEAKER), Turns(turn_tokens=30, max_turns=2))
  with pytest.raises(ValueError, match=r"\['b'\] never speak"):
    dataclasses.replace(WORLD, order=(0, 0))
  short = dataclasses.replace(MODEL, shape=dataclasses.replace(MODEL.shape, vocab_size=5))
  with pytest.raises(ValueError, match='unlike vocabularies'):
    ask({**dict.fromkeys(WORLD.seats, SPEAKER), 'b': dataclasses.replace(SPEAKER, model=short)})
