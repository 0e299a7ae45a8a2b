"""Sweeps: ranges as they are written, trials as runs, one that was stopped goes on, tables add up."""

import csv

import pytest

from rlx.experiments import sweep
from rlx.experiments.launch import main

CONFIG = 'experiments/configs/quickstart/arithmetic.py:smoke'


@pytest.mark.parametrize('text, expected', [
    ('0.2,0.28', sweep.Choice(('0.2', '0.28'))),
    ('grpo,rloo', sweep.Choice(('grpo', 'rloo'))),
    ('0.0..0.1', sweep.Range(0.0, 0.1, log=False)),
    ('1e-4..1e-2:log', sweep.Range(1e-4, 1e-2, log=True)),
    ('2..8', sweep.Range(2, 8, log=False)),
])
def test_ranges(text, expected):
  assert sweep.parse_space('x', text) == expected


@pytest.mark.parametrize('text', ['0.2..0.1', '0..1:log', 'a..b', '0..1:cube', '0..'])
def test_ranges_that_are_none(text):
  with pytest.raises(sweep.CommandError, match='needs values'):
    sweep.parse_space('x', text)


@pytest.mark.parametrize('arguments, words', [
    ([], 'nothing to sweep over'),
    (['--space.algorithm.clip_hi=0.1,0.2'], "did you mean 'algorithm.clip_high'?"),
    (['--space.algorithm.clip_high=0.1,no'], 'needs float'),
    (['--space.algorithm.clip_high=0.1..0.2', '--sampler=grid'], '--sampler=grid needs values'),
    (['--space.algorithm.clip_high=0.1,0.2', '--colour=red'], "'--colour=red' is not understood"),
])
def test_mistakes_are_told_before_the_first_trial(arguments, words, tmp_path, capsys):
  assert main(['sweep', f'--config={CONFIG}', f'--workdir={tmp_path}/sweep', *arguments]) == 2
  said = capsys.readouterr().err
  assert words in said and said.count('\n') == 1
  assert not list(tmp_path.glob('sweep/trials/*'))


def swept(workdir, *arguments):
  return main([
      'sweep', f'--config={CONFIG}', f'--workdir={workdir}', '--cluster=here', '--sampler=grid',
      '--space.algorithm.clip_high=0.2,0.3', '--config.steps=2', '--config.sft.steps=2', *arguments,
  ])


def rows_of(workdir):
  with open(workdir / sweep.TABLE) as file:
    return list(csv.DictReader(file, delimiter='\t'))


@pytest.mark.slow
def test_a_sweep_runs_its_trials_and_goes_on_where_it_was(tmp_path, capsys):
  """The first call makes one trial, the second finds it done and makes the other."""
  assert swept(tmp_path, '--trials=1') == 0
  first = rows_of(tmp_path)
  assert len(first) == 1
  metrics = tmp_path / 'trials/0000/metrics.jsonl'
  written = metrics.read_bytes()
  assert swept(tmp_path, '--trials=2') == 0
  rows = rows_of(tmp_path)
  assert metrics.read_bytes() == written and len(rows) == 2
  assert {row['algorithm.clip_high'] for row in rows} == {'0.2', '0.3'}
  for row in rows:
    directory = tmp_path / f'trials/{int(row["trial"]):04d}'
    assert float(row['eval/held_out/accuracy']) == sweep._metric(directory, 'eval/held_out/accuracy')
    config = (directory / 'config.json').read_text()
    assert f'"clip_high": {row["algorithm.clip_high"]}' in config
  assert '| 0.3 | 1 |' in capsys.readouterr().out


@pytest.mark.slow
def test_a_trial_that_was_left_running_is_run_first(tmp_path):
  """As after a crash of the sweep: the journal knows a trial that nobody has told the end of."""
  import optuna

  space = {'algorithm.clip_high': sweep.Choice(('0.2', '0.3'))}
  arguments, _ = sweep._parser().parse_known_args(
      [f'--config={CONFIG}', f'--workdir={tmp_path}', '--sampler=grid', '--trials=1', '--cluster=here',
       '--metric=eval/held_out/accuracy']
  )
  overrides = ['--config.steps=2', '--config.sft.steps=2']
  study = sweep._study(tmp_path, arguments, space, overrides)
  trial = study.ask()
  value = space['algorithm.clip_high'].suggest(trial, 'algorithm.clip_high')
  trial.set_user_attr('argv', [
      f'--config={CONFIG}', f'--workdir={tmp_path}/trials/0000', '--quiet', *overrides,
      f'--config.algorithm.clip_high={value}',
  ])
  submit = sweep._submitter(tmp_path, arguments, [])
  again = lambda: sweep._study(tmp_path, arguments, space, overrides)
  sweep._sweep(again(), tmp_path, arguments, space, overrides, submit)
  trials = again().trials
  assert trials[0].state == optuna.trial.TrialState.COMPLETE
  assert all(t.state == optuna.trial.TrialState.WAITING for t in trials[1:])


class Ended:
  """Trials as they stand in a study."""

  def __init__(self, trials, direction):
    self.trials, self.direction = trials, type('Direction', (), {'name': direction})


def ended(number, value, **params):
  state = type('State', (), {'name': 'COMPLETE'})
  return type('Trial', (), {'number': number, 'value': value, 'params': params, 'state': state})


@pytest.mark.slow
def test_a_trial_that_fails_is_told_and_the_others_go_on(tmp_path, capsys):
  """The wrong number of minibatches is found when the run is built; a second value works."""
  assert swept(tmp_path, '--space.updates.minibatches=3,1', '--trials=4') == 0
  assert capsys.readouterr().out.count('failed: rlx --config') == 2
  assert [row['updates.minibatches'] for row in rows_of(tmp_path)] == ['1', '1']


def test_tables_by_hand(tmp_path):
  trials = [
      ended(0, 0.5, a='x', b=1.0), ended(1, 0.9, a='y', b=2.0), ended(2, 0.7, a='x', b=3.0), ended(3, None),
  ]
  space = {'a': sweep.Choice(('x', 'y', 'z')), 'b': sweep.Range(0.0, 4.0, log=False)}
  sweep._write_tables(Ended(trials, 'MAXIMIZE'), tmp_path, 'eval/held_out/accuracy', space)
  assert [row['trial'] for row in rows_of(tmp_path)] == ['1', '2', '0']
  text = (tmp_path / sweep.FACTORS).read_text()
  assert '3 of 4 trials' in text
  assert '| x | 2 | 0.6 | 0.5 | 0.7 |' in text and '| y | 1 | 0.9 | 0.9 | 0.9 |' in text
  assert '| 1 to 1 | 1 | 0.5 |' in text and '| 3 to 3 | 1 | 0.7 |' in text and '| z |' not in text
  sweep._write_tables(Ended(trials, 'MINIMIZE'), tmp_path, 'eval/held_out/accuracy', space)
  assert [row['trial'] for row in rows_of(tmp_path)] == ['0', '2', '1']
  assert '| x | 2 | 0.6 | 0.7 | 0.5 |' in (tmp_path / sweep.FACTORS).read_text()


@pytest.mark.slow
def test_trials_run_in_processes_of_their_own(tmp_path):
  assert main([
      'sweep', f'--config={CONFIG}', f'--workdir={tmp_path}', '--trials=2', '--jobs=2', '--sampler=random',
      '--space.optimizer.learning_rate=1e-4..1e-2:log', '--config.steps=2', '--config.sft.steps=2',
  ]) == 0
  assert len(rows_of(tmp_path)) == 2 and len(list(tmp_path.glob('jobs/*.out'))) >= 2


@pytest.mark.slow
def test_a_directory_keeps_one_sweep(tmp_path, capsys):
  argv = ['--config=control/ppo_cartpole:smoke', f'--workdir={tmp_path}', '--trials=1', '--cluster=here',
          '--sampler=grid', '--space.seed=1']
  assert sweep.main(argv) == 0
  capsys.readouterr()
  for other, words in (
      (['--config.optimizer.learning_rate=0.5'], 'its overrides'), (['--space.steps=4'], 'its space'),
      (['--config=control/dqn_cartpole:smoke'], 'its config'),
  ):
    changed = [x for x in argv if x.partition('=')[0] not in [o.partition('=')[0] for o in other]]
    with pytest.raises(sweep.CommandError, match=f'holds another sweep .*{words}'):
      sweep.main([*changed, *other])
  assert sweep.main(argv) == 0  # the same one goes on
