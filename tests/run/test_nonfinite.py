"""Updates that are not finite: said, survived, given up with a dump; good checkpoints stay."""

import numpy as np
import pytest

from rlx.errors import ConfigError
from rlx.run import inputs, nonfinite, train
from rlx.run.writers import read_metrics
from tests.run.points import HERE, config_of, spoilt_gradients, spoilt_weights, stage
from tests.whole_runs import run_in


@pytest.fixture(autouse=True)
def pieces(monkeypatch):
  """Configs here name functions of `pieces.py`."""
  monkeypatch.syspath_prepend(HERE)


def saved(workdir):
  return sorted(int(path.name) for path in (workdir / 'checkpoints').iterdir())


@pytest.mark.slow
def test_some_are_left_out_and_said_and_a_run_that_is_stopped_among_them_is_the_same(tmp_path, capsys):
  config = spoilt_gradients(0.5, steps=8)
  assert train.train(config, tmp_path / 'whole', quiet=False, command='').finished
  rows = read_metrics(tmp_path / 'whole/metrics.jsonl')
  counts = [row.get('optimizer/nonfinite_updates', 0) for row in rows]
  first = next(step for step, count in enumerate(counts) if count)
  assert 0 < sum(count > 0 for count in counts) < 8
  said = [line for line in capsys.readouterr().err.splitlines() if 'left out' in line]
  assert said == [
      f'step {first}: an update was infinite or NaN and is left out; optimizer/nonfinite_updates counts'
  ]
  assert not [step for step in saved(tmp_path / 'whole') if counts[step] and step < 8]
  again, state, _ = run_in(config, tmp_path / 'stopped', stops=(first + first % 2,))
  assert (tmp_path / 'whole/metrics.jsonl').read_bytes() == again
  assert np.isfinite(state.params['point']).all()


def test_weights_that_become_nan_are_given_up_and_the_good_checkpoint_stays(tmp_path, capsys):
  config = spoilt_weights(4, steps=40)
  config.checkpoint.keep = 2
  for resumed in range(2):  # the same command again says the same
    with pytest.raises(train.NonFiniteError, match=r'2\d updates in a row were .*rlx replay .*nonfinite'):
      train.train(config, tmp_path, quiet=False, command='')
    assert capsys.readouterr().err.count('resumed from') == resumed  # and not while it is given up
  assert saved(tmp_path) == [2, 4]  # of the sixth step the weights are spoilt
  assert (tmp_path / 'nonfinite').is_dir()


def test_a_file_that_has_changed_is_refused_until_it_is_back(tmp_path, monkeypatch):
  path = tmp_path / 'rows.jsonl'
  path.write_text('{}\n')
  config = config_of(('main',), main=stage(steps=8))
  config.env.max_steps = 5
  with config.unlocked():
    config.log.writers = ()
  monkeypatch.setattr(inputs, '_texts', lambda value: [str(path)])
  whole, _, _ = run_in(config, tmp_path / 'whole')
  stop = lambda step, row: step == 4
  assert not train.train(config, tmp_path / 'run', quiet=True, command='', hooks=[stop]).finished
  path.write_text('{} \n')
  with pytest.raises(ConfigError, match='rows.jsonl: not the file that the run began with .digest'):
    train.train(config, tmp_path / 'run', quiet=True, command='')
  path.unlink()
  with pytest.raises(ConfigError, match='rows.jsonl: the run began with this file, which is gone'):
    train.train(config, tmp_path / 'run', quiet=True, command='')
  path.write_text('{}\n')
  assert train.train(config, tmp_path / 'run', quiet=True, command='').finished
  assert (tmp_path / 'run/metrics.jsonl').read_bytes() == whole


def test_files_are_found_wherever_a_config_names_them(tmp_path):
  for name in ('a.jsonl', 'b.npz', 'tokenizer.json', 'other.bin'):
    (tmp_path / name).write_text(name)
  config = config_of(('main',))
  with config.unlocked():
    mixture = ((str(tmp_path / 'a.jsonl'), 0.5), ('none.jsonl', 1))
    config.data = {'path': str(tmp_path / 'b.npz'), 'more': mixture}
    config.directory = str(tmp_path)
    config.text = 'x' * 10_000 + '\0'
  found = inputs.digests(config)
  assert found.keys() == {str(tmp_path), str(tmp_path / 'a.jsonl'), str(tmp_path / 'b.npz')}
  (tmp_path / 'other.bin').write_text('of no tokenizer')
  assert inputs.digests(config) == found
  (tmp_path / 'tokenizer.json').write_text('another')
  assert {path for path, x in inputs.digests(config).items() if x != found[path]} == {str(tmp_path)}


def test_who_is_left_out_is_told_apart():
  row = {'one/optimizer/nonfinite_updates': 3.0, 'two/optimizer/nonfinite_updates': 0.0, 'loss/total': 1.0}
  assert nonfinite.skipped(row) == {'one/': 3.0} and nonfinite.worst(row) == ''
  assert nonfinite.first_said([{}, row], 7).startswith("step 8: an update of learner 'one' was")
  row['one/optimizer/nonfinite_updates'] = 20.0
  assert nonfinite.worst(row) == "20 updates of learner 'one' in a row were infinite or NaN and were skipped"
