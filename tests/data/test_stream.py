"""Mixtures and streams: which rows come when, that a stream is the data set it reads, and what is no use."""

import json
from pathlib import Path

import chex
import jax
import numpy as np
import pytest

from rlx.data.dataset import dataset
from rlx.data.order import drawn_rows, mixture
from rlx.data.stream import Lines, streamed
from tests.cases import cases

TINY = str(Path(__file__).parents[2] / 'experiments/data/tiny_model')
says = lambda role, content: {'role': role, 'content': content}
KINDS = {
    'prompts': lambda i: {'prompt': f'{i} plus {i} is', 'answer': 2 * i},
    'completions': lambda i: {'prompt': f'{i} plus {i} is', 'completion': f' {2 * i}'},
    'pairs': lambda i: {'prompt': f'{i} plus {i} is', 'chosen': f' {2 * i}', 'rejected': ' 1'},
    'messages': lambda i: {'messages': [says('user', f'{i}?'), says('assistant', 'x')]},
}


def write(path, rows):
  path.write_text(''.join(line if isinstance(line, str) else json.dumps(line) + '\n' for line in rows))
  return str(path)


def load(train, held_out='', *, window_rows=0, malformed='strict'):
  """A stream where there is a window, otherwise a data set; both padded alike, by a row that is as long."""
  arguments = {
      'directory': TINY, 'train': train, 'held_out': held_out, 'columns': {}, 'chat': False, 'system': '',
      'max_prompt_tokens': 40, 'max_completion_tokens': 12, 'malformed': malformed,
  }
  return streamed(**arguments, window_rows=window_rows) if window_rows else dataset(**arguments)


@pytest.mark.parametrize('shares', [(1.0,), (0.7, 0.3), (1, 3.14159)])
def test_any_stretch_of_a_mixture_has_its_shares(shares):
  sizes = [3, 5, 4][: len(shares)]
  sources = mixture(sizes, shares)
  rows, tasks = jax.device_get(jax.jit(lambda x: drawn_rows(x, sources, jax.random.key(0)))(np.arange(1500)))
  for k, share in enumerate(np.array(shares) / sum(shares)):
    counts = np.cumsum(tasks == k)
    rounded = 1.5 * (shares[1:] in [(0.01,), (3.14159,)])  # of 1500 draws, by a thousandth
    assert np.abs(counts - share * np.arange(1, 1501)).max() < 1 + rounded
    own = rows[tasks == k] - sum(sizes[:k])
    for epoch in range(len(own) // sizes[k]):
      assert sorted(own[epoch * sizes[k] :][: sizes[k]]) == list(range(sizes[k])), 'each once an epoch'


@pytest.mark.parametrize('shares', [(1.0, 0.0), (1.0, -1.0), (1.0, 1e-5)])
def test_a_share_that_would_never_come_is_refused(shares):
  with pytest.raises(ValueError, match='shares'):
    mixture([3, 3], shares)


@pytest.mark.parametrize('kind', cases(KINDS, at_once=('pairs',)))
def test_a_stream_draws_what_the_data_set_draws(tmp_path, kind):
  """Two files in a mixture, over epochs and windows, in batches that do not divide them."""
  rows = [KINDS[kind](i) for i in range(9)]
  files = ((write(tmp_path / 'a.jsonl', rows[:5]), 2), (write(tmp_path / 'b.jsonl', rows[5:]), 1))
  whole, stream = load(files), load(files, window_rows=12)
  draw = whole.draw if kind == 'prompts' else whole.demonstrate
  of_stream = stream.draw if kind == 'prompts' else stream.demonstrate
  draw, of_stream = (jax.jit(lambda world, f=f: f(world, None, 4)) for f in (draw, of_stream))
  world, place = ({**x.begin(jax.random.key(1))} for x in (whole, stream))
  for step in range(9):
    if step % 3 == 0:
      window = stream.window(place)
      assert jax.tree.map(lambda x: (x.shape, x.dtype), window) == jax.tree.map(
          lambda x: (x.shape, x.dtype), dict(stream.data)
      ), 'no other shapes than those that were traced'
    expected, world = draw({**world, 'data': whole.data})
    batch, place = of_stream({**place, 'data': window})
    assert expected.keys() == batch.keys()
    for name, array in expected.items():  # the stream is wider
      wide = np.asarray(batch[name])
      narrow = wide[:, : array.shape[1]] if array.ndim == 2 else wide
      np.testing.assert_array_equal(narrow, array, err_msg=name)
    chex.assert_trees_all_equal(place, world)
    numbers = np.asarray(batch['rows'])
    assert stream.columns(numbers) == whole.columns(numbers)
    assert stream.prompts(numbers) == whole.prompts(numbers)


def test_held_out_rows_come_behind(tmp_path):
  rows = [KINDS['completions'](i) for i in range(6)]
  files = write(tmp_path / 'a.jsonl', rows[:4]), write(tmp_path / 'b.jsonl', rows[4:])
  whole, stream = load(*files), load(*files, window_rows=4)
  chex.assert_trees_all_equal(stream.held_out(2)['rows'], whole.held_out(2)['rows'])
  chex.assert_trees_all_equal(stream.held_out_demonstrations(2), whole.held_out_demonstrations(2))
  assert stream.solutions([4, 5]) == whole.solutions([4, 5]) == [' 8', ' 10']


def test_a_column_that_the_first_row_lacks_is_there(tmp_path):
  rows = [{'prompt': 'a'}, {'prompt': 'b', 'answer': '7'}, {'prompt': 'c', 'answer': '8'}]
  file = write(tmp_path / 'rows.jsonl', rows)
  expected = {'answer': [None, '7', '8']}
  assert load(file).columns([0, 1, 2]) == load(file, window_rows=16).columns([0, 1, 2]) == expected


def test_lines_are_found_whatever_ends_them(tmp_path):
  path = tmp_path / 'rows.jsonl'
  path.write_bytes(b'\n{"prompt": "a"}\r\n\r\n[1]\n\n{"prompt": "b"}')
  lines = Lines(str(path))
  assert len(lines) == 3 and lines[0] == {'prompt': 'a'} and lines[2] == {'prompt': 'b'}
  assert lines[1].reason == 'not an object' and lines.place(1) == 'line 4'


def test_a_row_that_is_no_use_is_stood_in_for_by_the_next(tmp_path):
  rows = [KINDS['prompts'](0), {'prompt': 'x' * 500}, '{"prompt": \n', KINDS['prompts'](3)]
  path = write(tmp_path / 'rows.jsonl', rows)
  stream = load(path, window_rows=4, malformed='skip')
  assert [row['answer'] for row in (stream.rows[i] for i in range(4))] == [0, 6, 6, 6]
  strict = load(path, window_rows=4)
  with pytest.raises(ValueError, match='rows.jsonl, line [23]: (prompt too long|not JSON)'):
    strict.window(strict.begin(jax.random.key(0)))


def test_more_draws_than_the_window_holds_are_an_error(tmp_path):
  stream = load(write(tmp_path / 'rows.jsonl', [KINDS['prompts'](i) for i in range(9)]), window_rows=4)
  world = stream.begin(jax.random.key(0))
  window = stream.window(world)
  stream.check(window, {**world, 'cursor': world['cursor'] + 4})
  with pytest.raises(ValueError, match='window_rows=4, and a dispatch .* draws 5 rows'):
    stream.check(window, {**world, 'cursor': world['cursor'] + 5})


@pytest.mark.parametrize(
    ('train', 'words'),
    [
        ('rows.json', 'only .jsonl'), ('none.jsonl', 'none.jsonl cannot be read'),
        ('empty.jsonl', 'no rows'), ((('a.jsonl',),), 'files with shares'), ((), 'files with shares'),
    ],
)
def test_what_cannot_be_streamed_is_refused(tmp_path, monkeypatch, train, words):
  monkeypatch.chdir(tmp_path)
  write(tmp_path / 'empty.jsonl', ['\n'])
  with pytest.raises(ValueError, match=words):
    load(train, window_rows=4)


def test_a_mixture_is_of_one_kind(tmp_path):
  a, b = (write(tmp_path / f'{kind}.jsonl', [KINDS[kind](0)]) for kind in ('prompts', 'completions'))
  with pytest.raises(ValueError, match='different kinds'):
    load(((a, 1), (b, 1)))
