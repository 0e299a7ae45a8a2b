"""Chain-of-Agents: the roles of a table in one row, behind tags; https://arxiv.org/abs/2508.13167."""

from functools import partial

import jax
import jax.numpy as jnp
import pytest

from rlx.envs.conformance import check_turn_task
from rlx.envs.worlds.chained import chained
from rlx.envs.worlds.form import form
from tests.papers.test_autoglm import PROBLEM, SIZE

FORM = partial(form, **SIZE, site=0)
WORLD = chained(task=FORM, expert_return=1.0)
NOBODY_READS = {'told': jnp.zeros((2, 5), jnp.int32), 'told_lengths': jnp.zeros(2, jnp.int32)}


def played(turns):
  """What is replied to turns of two characters, and who was to speak after them."""
  state, replies, act = WORLD.start({**PROBLEM, **NOBODY_READS}), [], jax.jit(WORLD.act)
  for turn in turns:
    replies.append(act(state, jnp.asarray(WORLD.encode(turn)), jnp.int32(len(turn)), jax.random.key(0)))
    state = replies[-1].state
  return [WORLD.decode(reply.observation[:reply.length]) for reply in replies], replies


def test_roles_follow_each_other_in_one_row():
  read, replies = played(['①B', '②1', '①w', '②5', '①r', '②4'])
  assert read == list('BBwwrr')  # a name, and what was pressed
  assert [bool(reply.understood) for reply in replies] == 6 * [True]
  assert [float(reply.reward) for reply in replies] == 5 * [0.0] + [1.0]
  assert bool(replies[-1].ended) and float(replies[-1].info['success']) == 1.0


@pytest.mark.parametrize('turn', ['②B', 'B①', '①'])
def test_under_the_tag_of_another_role_nothing_is_said(turn):
  read, replies = played([turn, '②1', '①w'])
  assert not replies[0].understood and read[0] == '①'  # whose turn it was
  assert int(replies[0].state.inner['element']) == -1  # nothing was named
  assert bool(replies[1].understood) and float(replies[1].info['found']) == 0.0


def test_the_row_begins_with_what_every_role_is_told():
  problems = WORLD.sample(jax.random.key(0), 4, False)
  seats = FORM().sample(jax.random.key(0), 4, False)
  for row in range(4):
    told = [FORM().decode(seats['prompts'][row, i, :n]) for i, n in enumerate(seats['prompt_lengths'][row])]
    whole = WORLD.decode(problems['prompts'][row, :problems['prompt_lengths'][row]])
    assert whole == f'①{told[0]}②{told[1]}'


@pytest.mark.slow
def test_it_is_a_world_of_turns():
  check_turn_task(WORLD)
