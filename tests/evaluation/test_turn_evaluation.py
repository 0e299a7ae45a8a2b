"""Whole episodes are examined, and read turn by turn; tasks of another kind are refused in one line."""

import dataclasses
import functools

import algorithms_table as toy
import jax
import numpy as np
import pytest

from rlx.controllers import schedules
from rlx.engine import turns as engine
from rlx.engine.turns import Turns
from rlx.errors import ConfigError
from rlx.evaluation import text
from rlx.evaluation import turns as evaluation
from rlx.rewards.of_world import of_world
from rlx.rollout import prompts
from rlx.rollout.turns import episodes, expert_turns


@pytest.mark.slow
def test_an_expert_is_read_turn_by_turn():
  rollout = expert_turns(toy.WORLD, toy.WORLD_POLICY, batch_size=2, turn_tokens=1, max_turns=4)
  batch, _ = rollout({}, {}, jax.random.key(0))
  row = {name: np.asarray(x[0]) for name, x in batch.items()}
  move = 'e' if toy.WORLD.decode(row['tokens'])[0] == 'B' else 'w'
  told = evaluation.turns_of(toy.WORLD, row)
  assert [turn['action'] for turn in told] == [move, 't'] and [turn['reward'] for turn in told] == [0, 1]
  assert told[0]['observation'] == (':Bw' if move == 'e' else ':Ae') and told[1]['observation'] == ''
  assert evaluation.transcript(toy.WORLD, row) == f'\n> {move}\n{told[0]["observation"]}\n> t  [+1]'


@pytest.mark.slow
def test_an_evaluation_says_what_its_episodes_are():
  exam = evaluation.episodes(
      toy.WORLD, toy.WORLD_POLICY, 3, problems=16, num_slots=4, turn_tokens=1, max_turns=4
  )
  models = {'policy': toy.WALKER.init(jax.random.key(0))}
  metrics, read = exam.read(jax.device_get(jax.jit(exam.ask)(models, ())))
  assert metrics.keys() == {'accuracy', 'reward', 'turns', 'understood', 'truncated_fraction'}
  assert 1 <= metrics['turns'] <= 4 and metrics['accuracy'] == metrics['reward']
  assert len(read) == 3 and all(row['completion'].startswith('\n> ') for row in read)


@pytest.mark.slow
def test_accuracy_is_told_apart_by_a_column_of_the_problems():
  how = dict(problems=16, num_slots=4, turn_tokens=1, max_turns=4)
  world = dataclasses.replace(toy.WORLD, sample=with_kinds)
  models = {'policy': toy.WALKER.init(jax.random.key(0))}
  exam = evaluation.episodes_by(world, toy.WORLD_POLICY, 3, **how, column='kind', values=(0, 1, 2))
  metrics, _ = exam.read(jax.device_get(jax.jit(exam.ask)(models, ())))
  every = metrics['accuracy']
  np.testing.assert_allclose(0.25 * metrics['accuracy_0'] + 0.75 * metrics['accuracy_1'], every, rtol=1e-6)
  assert np.isnan(metrics['accuracy_2'])


def with_kinds(key, num, held_out):
  return {**toy.WORLD.sample(key, num, held_out), 'kind': (np.arange(num) % 4 > 0).astype(int)}


@pytest.mark.slow
def test_the_horizon_follows_the_step():
  rollout = episodes(
      toy.WORLD, toy.WORLD_POLICY, batch_size=8, group_size=2, num_slots=0, turn_tokens=1,
      max_turns=functools.partial(schedules.horizon, first=1, last=3, num_steps=2),
  )
  world, draw = rollout.begin(jax.random.key(0)), jax.jit(rollout.draw)
  models, longest = {'policy': toy.WALKER.init(jax.random.key(0))}, []
  for key in jax.random.split(jax.random.key(1), 3):
    batch, world = draw(models, world, key)
    longest.append(int(batch['turns/max'][0]))
  assert longest == [1, 2, 3]


def one_line(kind, said):
  return pytest.raises(kind, match=said)


def test_tasks_of_another_kind_are_refused():
  how = dict(batch_size=4, group_size=2, num_slots=0)
  with one_line(ConfigError, 'answers nothing'):
    episodes(object(), toy.WORLD_POLICY, turn_tokens=1, max_turns=None, **how)
  with one_line(ValueError, 'turns.episodes'):
    prompts.completions(toy.WORLD, toy.WORLD_POLICY, **how)
  with one_line(ValueError, 'turns.expert_turns'):
    prompts.solutions(toy.WORLD, toy.WORLD_POLICY, batch_size=4)
  with one_line(ValueError, 'evals'):
    text.verified(toy.WORLD, toy.WORLD_POLICY, 1, problems=4)
  with one_line(ValueError, "reward.name='of_world'"):
    of_world()({}, {'tokens': np.zeros((1, 1))}, None)


def test_a_turn_beyond_the_room_is_refused():
  with one_line(ValueError, 'turn_tokens=21, decoding.max_tokens=20'):
    engine.check(toy.WORLD, toy.WORLD_POLICY.decoding, Turns(21, 2))
