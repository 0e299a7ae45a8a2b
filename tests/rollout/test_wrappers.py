"""Rollouts around another one keep what it does behind a step, and when a run goes on."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from rlx.controllers.memory import with_memory
from rlx.rollout.each import each, for_all
from rlx.rollout.gathered import gathered, remembered
from rlx.rollout.kept import without_void_turns
from rlx.rollout.pairs import paired
from rlx.rollout.reuse import PAST, with_past
from rlx.rollout.swarm import swarm
from rlx.types import StatefulRollout, go_on

KEY = jax.random.key(0)
INNER = StatefulRollout(
    begin=lambda key: {'inner': jnp.int32(0)}, draw=lambda models, world, key: ({}, world), data=None,
    absorb=lambda slow, batch: {**slow, 'taken': slow['taken'] + batch['x']},
    anew=lambda world, key: {name: x + 1 for name, x in world.items()}, ahead=False,
)
REWARD = lambda models, batch, key: batch
COUNT = dict(begin=lambda key: 0, annotate=lambda memory, batch: batch, observe=lambda memory, batch: memory)
WRAPPERS = {
    'gathered': (lambda inner: gathered(inner, REWARD, steps=1), {}),
    'remembered': (lambda inner: remembered(inner, memory='seen', capacity=2, min_reward=0.0), {'seen': 5}),
    'paired': (lambda inner: paired(inner, REWARD), {}),
    'with_past': (lambda inner: with_past(inner, past_steps=1, batch_size=2), {PAST: 5}),
    'swarm': (
        lambda inner: swarm(inner, None, REWARD, swarm_size=1, group_size=1, taken_groups=0), {}
    ),
    'without_void_turns': (without_void_turns, {}),
    'with_memory': (lambda inner: with_memory(inner, 'count', **COUNT), {'count': 5}),
    'for_all': (lambda inner: for_all(inner, learners=('a',)), {}),
}


@pytest.mark.parametrize('name', WRAPPERS)
def test_what_is_inside_is_still_asked(name):
  wrap, memory = WRAPPERS[name]
  rollout, batch = wrap(INNER), {'x': 2, 'a': {'x': 2}}
  assert rollout.absorb({'taken': 1}, batch) == {'taken': 3}
  assert rollout.begins_anew and rollout.anew({'inner': 1, **memory}, KEY) == {'inner': 2, **memory}
  assert not rollout.ahead


@pytest.mark.parametrize('name', WRAPPERS)
def test_where_nothing_begins_anew_nothing_does_so_outside(name):
  assert not WRAPPERS[name][0](dataclasses.replace(INNER, anew=go_on)).begins_anew


def test_those_of_several_learners_are_asked_by_name():
  both = each(a=INNER, b=INNER)
  assert both.absorb({'taken': 0}, {'a': {'x': 1}, 'b': {'x': 2}}) == {'taken': 3}
  assert both.begins_anew and both.anew({'a': {'n': 1}, 'b': {'n': 2}}, KEY) == {'a': {'n': 2}, 'b': {'n': 3}}
  shared = for_all(INNER, learners=('a', 'b'))
  assert shared.absorb({'taken': 0}, {'a': {'x': 1}, 'b': {'x': 1}}) == {'taken': 1} and shared.begins_anew
