"""`rlx compare`: runs of one config are one line, and what differs between lines is said."""

import json

import numpy as np
import pytest

from rlx.experiments import compare, launch
from rlx.experiments.commands import CommandError
from rlx.run.writers import MetricsWriter

RETURN = 'eval/episodes/return'


def a_run(folder, *, returns, seed=0, rate=1e-3, members=None, env_steps=10.0, headline=RETURN, more=()):
  """A run whose evaluations, at every step, found `returns`; `members` [N, steps] of a population."""
  folder.mkdir()
  size = 1 if members is None else len(members)
  config = {'seed': seed, 'population': {'size': size}, 'optimizer': {'learning_rate': rate}}
  config['log'] = {'headline': headline}
  (folder / 'config.json').write_text(json.dumps(config))
  writer = MetricsWriter(folder, resume_step=-1)
  for step, value in enumerate(returns):
    row = dict.fromkeys((headline, *more), value)
    writer.write(step, 'main', {**row, 'env/steps': env_steps if step else 0.0})
    if members is not None:
      writer.write_members(step, 'main', {'eval/episodes/return': members[:, step]})
  writer.close()
  return str(folder)


def test_seeds_are_one_line_and_configs_are_several(tmp_path):
  runs = [
      a_run(tmp_path / 'a', returns=[0, 1], seed=0),
      a_run(tmp_path / 'b', returns=[0, 3], seed=1),
      a_run(tmp_path / 'c', returns=[0, 8], rate=1e-2),
  ]
  lines = compare.read(runs, 'eval/episodes/return', 'train steps')
  assert [line.name for line in lines] == [runs[0], runs[2]]
  np.testing.assert_array_equal(lines[0].values, [[0, 1], [0, 3]])
  text = compare.table(lines, 'eval/episodes/return')
  assert '| 2 | 2 | 1 | 3 |' in text  # seeds, IQM, worst, best
  assert 'optimizer.learning_rate: 0.001 -> 0.01' in text and '`seed' not in text


def test_members_of_a_population_are_seeds_with_an_interval(tmp_path):
  members = np.array([[0.0, value] for value in (1, 2, 3, 4, 100)])
  run = a_run(tmp_path / 'a', returns=[0, 3], members=members)
  (line,) = compare.read([run], 'eval/episodes/return', 'train steps')
  np.testing.assert_array_equal(line.values, members)
  middle, low, high = compare.summarised(line.values[:, -1])
  assert middle == 3 and 1 <= low < 3 < high <= 100


def test_the_axis_can_be_what_was_spent(tmp_path):
  run = a_run(tmp_path / 'a', returns=[0, 1, 2], env_steps=64.0)
  (line,) = compare.read([run], 'eval/episodes/return', 'env/steps')
  np.testing.assert_array_equal(line.at, [0, 64, 128])


def test_only_steps_that_all_seeds_have_are_compared(tmp_path):
  runs = [a_run(tmp_path / 'a', returns=[0, 1, 2]), a_run(tmp_path / 'b', returns=[4, 5], seed=1)]
  (line,) = compare.read(runs, 'eval/episodes/return', 'train steps')
  np.testing.assert_array_equal(line.values, [[0, 1], [4, 5]])


def test_the_command_writes_a_table_and_a_figure(tmp_path, capsys):
  runs = [a_run(tmp_path / name, returns=[0, 1], seed=i) for i, name in enumerate('abc')]
  assert launch.main(['compare', *runs, f'--output={tmp_path / "out"}']) == launch.EXIT_DONE
  assert (tmp_path / 'out/compare.md').read_text() == capsys.readouterr().out
  assert (tmp_path / 'out/compare.png').read_bytes().startswith(b'\x89PNG')


@pytest.mark.parametrize(('options', 'said'), [
    (['--metric=eval/episodes/retrun'], "'eval/episodes/retrun'; it has env/steps, eval/episodes/return"),
    (['--against=env/step'], "no metric 'env/step'"), (['--metric=stage'], "'stage' is no number"),
])
def test_what_is_not_there_is_said(tmp_path, capsys, options, said):
  run = a_run(tmp_path / 'a', returns=[0, 1])
  assert launch.main(['compare', run, f'--output={tmp_path / "out"}', *options]) == launch.EXIT_DO_NOT_RETRY
  assert said in capsys.readouterr().err


def test_a_run_is_one_seed_however_often_it_is_named(tmp_path, capsys):
  run = a_run(tmp_path / 'a', returns=[0, 1])
  argv = ['compare', run, f'{run}/../a', f'--output={tmp_path / "out"}']
  assert launch.main(argv) == launch.EXIT_DO_NOT_RETRY
  assert 'the same run, which is one seed; name each once' in capsys.readouterr().err


def test_a_copy_of_a_run_is_no_other_seed(tmp_path):
  members = np.array([[0.0, 1.0], [0.0, 2.0]])
  both = a_run(tmp_path / 'both', returns=[0, 1], members=members)
  copy = a_run(tmp_path / 'copy', returns=[0, 1], seed=1)
  with pytest.raises(CommandError, match='both and .*copy are runs of the same config and seed 1; name one'):
    compare.read([both, copy], RETURN, 'train steps')
  other = a_run(tmp_path / 'other', returns=[0, 1], seed=1, rate=1e-2)
  assert len(compare.read([both, other], RETURN, 'train steps')) == 2


def test_the_metric_is_a_headline_that_all_runs_have(tmp_path):
  first = a_run(tmp_path / 'a', returns=[0, 1], headline='eval/levels/gap', more=(RETURN,))
  second = a_run(tmp_path / 'b', returns=[0, 1])
  assert compare.shared_metric([second, second]) == RETURN
  assert compare.shared_metric([first, second]) == RETURN
  third = a_run(tmp_path / 'c', returns=[0, 1], headline='eval/held_out/accuracy', more=('eval/levels/gap',))
  assert compare.shared_metric([first, third]) == 'eval/levels/gap'
  fourth = a_run(tmp_path / 'd', returns=[0, 1], headline='eval/x/one', more=('eval/x/both',))
  fifth = a_run(tmp_path / 'e', returns=[0, 1], headline='eval/x/two', more=('eval/x/both',))
  assert compare.shared_metric([fourth, fifth]) == 'eval/x/both'  # though it is the headline of neither


def test_runs_that_share_no_evaluation_are_told_so_in_a_line(tmp_path, capsys):
  runs = [
      a_run(tmp_path / 'a', returns=[0, 1]),
      a_run(tmp_path / 'b', returns=[0, 1], headline='eval/held_out/accuracy'),
  ]
  assert launch.main(['compare', *runs, f'--output={tmp_path / "out"}']) == launch.EXIT_DO_NOT_RETRY
  said = capsys.readouterr().err
  assert said.count('\n') == 1 and 'share no evaluation' in said
  assert f'{runs[0]} has {RETURN}' in said and f'{runs[1]} has eval/held_out/accuracy' in said


def test_a_directory_without_a_run_is_refused(tmp_path, capsys):
  assert launch.main(['compare', str(tmp_path), f'--output={tmp_path}']) == launch.EXIT_DO_NOT_RETRY
  assert 'holds no run' in capsys.readouterr().err


def test_members_go_on_where_a_run_was_resumed(tmp_path):
  a_run(tmp_path / 'a', returns=[0, 1, 2], members=np.zeros((3, 3)))
  writer = MetricsWriter(tmp_path / 'a', resume_step=1)
  writer.write_members(2, 'main', {'eval/episodes/return': np.ones(3)})
  writer.close()
  rows = [json.loads(line) for line in (tmp_path / 'a/members.jsonl').read_text().splitlines()]
  assert [row['step'] for row in rows] == [0, 1, 2] and rows[2]['eval/episodes/return'] == [1, 1, 1]
