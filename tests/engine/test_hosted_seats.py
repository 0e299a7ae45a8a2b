"""Seats that are driven from the host say what the compiled loop says, whenever the replies come."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_seat_episodes as compiled
from test_seat_episodes import DECODING, GROUP_SIZE, KEY, MODEL, PARAMS, PROBLEMS, TURNS, WORLD, WORLD_KEY

from rlx.engine import host_seats as engine
from rlx.engine.host_turns import Conversation

NUM = 5 * GROUP_SIZE
ACT, START, IDENTIFY = jax.jit(WORLD.act), jax.jit(WORLD.start), jax.jit(WORLD.state_id)


class Hosted:
  """A world of the compiled loop as company on the host, whose replies come when `chance` wants."""

  info = ('said',)

  def __init__(self, chance=None):
    row = lambda number: jax.tree.map(lambda x: x[number // GROUP_SIZE], PROBLEMS())
    self._states, self._turns = [START(row(number)) for number in range(NUM)], [0] * NUM
    self._chance, self._made, self.most, self.ended = chance, [], 0, []

  def say(self, seat, said):
    turn, state = self._turns[said.sequence], self._states[said.sequence]
    assert seat == WORLD.order[turn % 3], 'another one was to speak'
    action = np.zeros(TURNS.turn_tokens, np.int32)
    action[: len(said.tokens)] = said.tokens
    key = jax.random.fold_in(jax.random.fold_in(WORLD_KEY, said.sequence), turn)
    reply = jax.device_get(ACT(state, jnp.asarray(action), len(said.tokens), key))
    self._states[said.sequence], self._turns[said.sequence] = reply.state, turn + 1
    told = zip(reply.observations, reply.lengths, strict=True)
    self._made.append(engine.Reply(
        said.sequence, told={i: tokens[:length].tolist() for i, (tokens, length) in enumerate(told)},
        rewards=dict(enumerate(reply.rewards.tolist())), understood=bool(reply.understood),
        next=None if reply.ended else WORLD.order[(turn + 1) % 3], info={'said': float(reply.info['said'])},
        anchor=int(IDENTIFY(state)),
    ))

  def over(self, sequence):
    self.ended.append(sequence)

  def replies(self, *, wait):
    self.most = max(self.most, len(self._made))
    num = len(self._made) if self._chance is None else self._chance.randint(int(wait), len(self._made))
    if self._chance is not None:
      self._chance.shuffle(self._made)
    ready, self._made = self._made[:num], self._made[num:]
    return ready


PROGRAMS = Conversation(MODEL, DECODING, TURNS, group_size=GROUP_SIZE, num_slots=4)


def on_host(chance=None):
  world, seats = Hosted(chance), range(2)
  rows, tally = engine.sample(
      [PROGRAMS] * 2, [PARAMS()] * 2, [PROBLEMS()['prompts'][:, i] for i in seats],
      [PROBLEMS()['prompt_lengths'][:, i] for i in seats], KEY, world, max_turns=TURNS.max_turns,
  )
  return jax.device_get(rows), tally, world


def assert_same(rows, others):
  for one, other in zip(rows, others, strict=True):
    assert one.keys() == other.keys()
    for name in one:
      np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def test_rows_are_those_of_the_compiled_loop_to_the_bit():
  device, (host, _, world) = compiled.drawn(), on_host()
  assert_same(host, [device[seat] for seat in WORLD.seats])
  assert sorted(world.ended) == list(range(NUM))
  assert np.isnan(host[1]['rewards']).any() and host[0]['truncated'].any(), 'no seat was silent: no test'


@pytest.mark.parametrize('seed', range(2))
def test_what_is_said_does_not_depend_on_when_replies_come(seed):
  late, tally, world = on_host(random.Random(seed))
  assert_same(late, on_host()[0])
  assert world.most > 1 and tally.waiting_share > 0, 'nothing was late: no test'
