"""From rows of tokens to texts, to scores and back: what a compiled step sees of a Python reward."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rlx import reductions, types, watchdog
from rlx.advantages import groups
from rlx.data.dataset import dataset
from rlx.errors import ConfigError
from rlx.rewards import sandbox
from rlx.rewards.host import host

TINY = Path(__file__).parents[2] / 'experiments/data/tiny_model'
LENGTH, EVEN = 'host_rewards.length', 'host_rewards.only_even'
FAULT, LOGGING = 'host_rewards.chosen_fault', 'host_rewards.logging'


@pytest.fixture(scope='module')
def task(tmp_path_factory):
  path = tmp_path_factory.mktemp('rows') / 'rows.jsonl'
  path.write_text(''.join(json.dumps({'prompt': f'Say {n}.', 'number': n}) + '\n' for n in range(8)))
  return dataset(
      directory=str(TINY), train=str(path), held_out='', columns={}, chat=False, system='',
      max_prompt_tokens=32, max_completion_tokens=8, malformed='strict',
  )


@pytest.fixture
def make(task, monkeypatch):
  """Builds rewards from sections, and ends their processes."""
  monkeypatch.syspath_prepend(str(Path(__file__).parent))
  made = []

  def make(**functions):
    functions = {name: {'weight': 1.0, **section} for name, section in functions.items()}
    made.append(
        host(task, functions=functions, timeout_seconds=20.0, workers=1, rows_per_call=1)
    )
    return made[-1]

  yield make
  for reward in made:
    reward.close()


def batch_of(task, texts, rows, group_ids):
  """Rows of two prompt tokens and the tokens of a text."""
  encoded = [task.encode(text) for text in texts]
  columns = np.arange(2 + max(map(len, encoded)))[None]
  lengths = np.array([2 + len(x) for x in encoded])[:, None]
  tokens = np.zeros((len(texts), columns.size), np.int32)
  for row, x in zip(tokens, encoded, strict=True):
    row[2 : 2 + len(x)] = x
  return {
      'tokens': tokens, 'valid': columns < lengths, 'action_mask': (columns >= 2) & (columns < lengths),
      'rows': np.array(rows, np.int32), 'groups': np.array(group_ids, np.int32),
  }


def test_texts_columns_and_weights(task, make):
  reward = make(length={'name': LENGTH, 'weight': 0.5}, even={'name': EVEN})
  batch = reward({}, batch_of(task, ['ab', 'abcd', 'x', 'xyz'], [0, 0, 1, 1], [0, 0, 1, 1]), None)
  np.testing.assert_array_equal(batch['rewards'], [2.0, 3.0, 0.5, 1.5])
  np.testing.assert_array_equal(batch['rewards/length'], [2, 4, 1, 3])
  np.testing.assert_array_equal(batch['rewards/even'], [1, 1, np.nan, np.nan])
  assert batch['scored'].all() and (batch['reward/failed'] == 0).all()
  np.testing.assert_array_equal(batch['groups'], [0, 0, 2, 2])  # named after their first rows
  types.check(jax.tree.map(jnp.asarray, batch))


def test_a_reward_that_hangs_is_told_while_it_does(task, make, capfd):
  reward = make(slow={'name': 'host_rewards.slow', 'seconds': 1.5})
  with watchdog.watching(0.5), watchdog.section('step'):
    reward({}, batch_of(task, ['a'], [1], [0]), None)
  said = capfd.readouterr().err
  assert 'reward in step has taken more than 0.5 s' in said or 'reward has taken more than 0.5 s' in said
  assert 'in score' in said


def test_a_row_that_fails_is_left_out_of_its_group_and_of_the_loss(task, make):
  reward = make(number={'name': FAULT, 'bad': (3, 5)})
  rows = [1, 2, 3, 6, 5, 5, 5, 3]
  batch = reward({}, batch_of(task, list('abcdefgh'), rows, [0, 0, 0, 0, 1, 1, 1, 1]), None)
  np.testing.assert_array_equal(batch['scored'], [True, True, False, True, False, False, False, False])
  assert batch['groups'].tolist() == [0, 0, 2, 0, 4, 5, 6, 7]
  np.testing.assert_array_equal(np.isnan(batch['rewards']), ~batch['scored'])
  assert (batch['reward/failed'] == 5).all() and (batch['reward/failed_raised'] == 5).all()
  advantages = np.asarray(groups.centred(jnp.asarray(batch['rewards']), jnp.asarray(batch['groups'])))
  np.testing.assert_allclose(advantages, [-2, -1, 0, 3, 0, 0, 0, 0], atol=1e-6)  # 1, 2, 6: the mean is 3
  weights = np.asarray(reductions.sequence_mean(jnp.asarray(batch['action_mask'])))
  np.testing.assert_array_equal(weights.sum(axis=1) > 0, batch['scored'])
  assert any('number' in message for message in reward.last.messages)


def test_tokens_are_handed_over_as_they_were_sampled(task, make):
  reward = make(logging={'name': LOGGING})
  tokens = [[5, 6, 7], [9], []]
  scores = reward.score(np.array([0, 1, 2]), tokens)
  assert scores.extra['last_token'] == ['7', '9', ''] and scores.metrics == {'tokens_seen': 4 / 3}
  batch = batch_of(task, ['a', 'b'], [0, 1], [0, 1])
  reward({}, batch, None)
  reward({}, batch, None)
  assert [said.metrics for said in reward.heard()] == [{'tokens_seen': 1.0}] * 2 and reward.heard() == []


def test_shapes_are_known_without_scoring(task, make):
  reward = make(length={'name': LENGTH}, even={'name': EVEN})
  batch = batch_of(task, ['ab', 'abcd'], [0, 1], [0, 0])
  with reward.only_shapes():
    shapes = jax.eval_shape(lambda batch: reward({}, batch, None), batch)
  real = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, reward({}, batch, None)))
  assert shapes == real
  with pytest.raises(jax.errors.TracerArrayConversionError):
    jax.eval_shape(lambda batch: reward({}, batch, None), batch)  # never a silent zero


@pytest.mark.parametrize(
    'functions, words',
    [
        ({}, 'functions is empty'),
        ({'x': {'name': 'host_rewards.nothing'}}, "no function 'nothing'"),
        ({'x': {'name': LENGTH, 'colour': 1}}, 'colour'),
        ({'x': {'name': FAULT, 'bad': (), 'weight': float('nan')}}, 'weight'),
    ],
)
def test_wrong_sections_are_refused(make, functions, words):
  with pytest.raises(ValueError, match=words):
    make(**functions)


def test_a_missing_column_is_named_before_the_run(task, make):
  with pytest.raises(ValueError, match='answer'):
    make(math={'name': 'rlx.rewards.math.math_answer', 'tolerance': 1e-6})


def test_a_sandbox_that_is_missing_is_an_error_and_no_score(tmp_path, monkeypatch):
  rows = [{'prompt': 'def f():', 'tests': 'assert f() == 1'}]
  (tmp_path / 'rows.jsonl').write_text('\n'.join(map(json.dumps, rows)))
  task = dataset(
      directory=str(TINY), train=str(tmp_path / 'rows.jsonl'), held_out='', columns={}, chat=False, system='',
      max_prompt_tokens=32, max_completion_tokens=8, malformed='strict',
  )
  section = {
      'name': 'rlx.rewards.code.unit_tests', 'weight': 1.0, 'timeout_seconds': 1.0, 'memory_bytes': 2**28,
      'tier': 'bubblewrap',
  }
  reward = host(
      task, functions={'tests': section}, timeout_seconds=5.0, workers=1, rows_per_call=1
  )
  monkeypatch.setenv('PATH', str(tmp_path))
  sandbox.check.cache_clear()
  with pytest.raises(ConfigError, match='bubblewrap'):
    reward.score(np.array([0]), [[5, 6]])
