"""CORY: both seats get the sum of both answers, the observer reads the pioneer's, and roles go round."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx.envs.ciphers import ciphers
from rlx.envs.seat_conformance import check_seat_task
from rlx.envs.worlds.pioneer import pioneer
from rlx.rollout import roles

TEXT = functools.partial(ciphers, modulus=7, letters=2, domains=('ab',))


def rewards_of(answers, *, shared):
  """What both seats get where they say these answers to a problem whose answer is `52`."""
  world = pioneer(task=TEXT, shared=shared)
  solution = jnp.asarray([*world.encode('52'), 1])
  state, paid = world.start({'solutions': solution}), []
  for answer in answers:
    action = jnp.asarray([*world.encode(answer), 1])
    reply = world.act(state, action, jnp.int32(3), jax.random.key(0))
    state = reply.state
    paid.append(np.asarray(reply.rewards).tolist())
  assert bool(reply.ended)
  return paid


@pytest.mark.parametrize(('answers', 'shared', 'expected'), [
    (('52', '52'), 1.0, [2.0, 2.0]), (('52', '51'), 1.0, [1.0, 1.0]), (('51', '52'), 1.0, [1.0, 1.0]),
    (('52', '51'), 0.0, [1.0, 0.0]), (('51', '52'), 0.0, [0.0, 1.0]), (('11', '11'), 1.0, [0.0, 0.0]),
])
def test_both_get_what_both_answers_are_worth(answers, shared, expected):
  assert rewards_of(answers, shared=shared) == [[0.0, 0.0], expected]


def test_the_observer_alone_reads_the_pioneers_answer():
  world = pioneer(task=TEXT, shared=1.0)
  state = world.start({'solutions': jnp.asarray([*world.encode('52'), 1])})
  reply = world.act(state, jnp.asarray([*world.encode('34'), 1]), jnp.int32(3), jax.random.key(0))
  assert reply.lengths.tolist() == [0, 2]
  assert reply.observations[1, :2].tolist() == list(world.encode('34'))


def test_roles_change_every_period():
  moved = [int(roles.places_moved(jnp.int32(step), period=3, num_seats=2)) for step in range(9)]
  assert moved == [0, 0, 0, 1, 1, 1, 0, 0, 0]


def test_a_learner_gets_the_rows_of_its_own_model_wherever_it_sits(monkeypatch):
  def played(task, speakers, **how):
    del speakers, how

    def play(models, world, key):
      del key
      rows = {
          seat: {'whose': jnp.full(2, models[seat]['weight']), 'seats': jnp.full(2, number)}
          for number, seat in enumerate(task.seats)
      }
      return rows, {**world, 'step': world['step'] + 1}

    return play

  monkeypatch.setattr(roles, 'played', played)
  rollout = roles.rotated(
      pioneer(task=TEXT, shared=1.0), {}, episodes=2, group_size=1, turn_tokens=1, max_turns=lambda step: 2,
      learners={'a': 'pioneer', 'b': 'observer'}, period=2,
  )
  models = {'pioneer': {'weight': jnp.float32(5)}, 'observer': {'weight': jnp.float32(7)}}
  world, seats = rollout.begin(jax.random.key(0)), []
  for _ in range(6):
    rows, world = rollout.draw(models, world, jax.random.key(1))
    assert rows['a']['whose'].tolist() == [5, 5] and rows['b']['whose'].tolist() == [7, 7]
    seats.append((int(rows['a']['seats'][0]), int(rows['b']['seats'][0])))
  assert seats == [(0, 1), (0, 1), (1, 0), (1, 0), (0, 1), (0, 1)]


@pytest.mark.slow
def test_the_world_keeps_the_contract():
  check_seat_task(pioneer(task=TEXT, shared=1.0), num=32, max_turns=4)
