"""`rlx reproduce`: arms that resume, a result that is kept, what is stale, and documents that are written."""

import json
from pathlib import Path
import signal
import subprocess
import sys
import time
import types

import pytest

from rlx.experiments import catalogue, claim_tests, claims, imports, papers, reproduce, results
from rlx.experiments.launch import main

CONFIG = '''"""A stand-in.

Paper: https://arxiv.org/abs/0000.00000

Result: by hand, over two
lines.
"""
from rlx.experiments.claims import *
from rlx.experiments.configs.control import two_players

def get_config(arg=''):
  config = two_players.get_config(arg)
  config.steps, config.evals.game.every, config.log.steps_per_dispatch = 20, 4, 4
  config.checkpoint.every = 4
  return config

def claim():
  return Claim(
      paper='S000', says='two learn more than one', reading=final('eval/game/first'), minutes=0.1,
      asserts=(above('off', by=0.1),),
      controls=(Arm('off', {'learners.second.optimizer.learning_rate': 0.0}),),
  )
'''


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """A working folder with a config that claims something."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'mine.py').write_text(CONFIG)
  return tmp_path


class Runs:
  """Stands for the launcher: five seeds that come to 0.5, and to less without a second learner."""

  def __init__(self, monkeypatch, off=0.1, stop_at=None):
    self.argvs, self.off, self.stop_at = [], off, stop_at
    monkeypatch.setattr(reproduce, 'run_here', self)

  def __call__(self, argv):
    if len(self.argvs) == self.stop_at:
      self.stop_at = None
      raise InterruptedError
    self.argvs.append(argv)
    workdir = next(Path(x.partition('=')[2]) for x in argv if x.startswith('--workdir'))
    workdir.mkdir(parents=True)
    end = self.off if any('learning_rate=0.0' in x for x in argv) else 0.5
    row = lambda step, x: {'step': step, 'stage': 'main', 'eval/game/first': [x + 0.01 * i for i in range(5)]}
    write = lambda name, rows: (workdir / name).write_text(''.join(f'{json.dumps(x)}\n' for x in rows))
    write('members.jsonl', [row(0, 0.0), row(20, end)])
    write('metrics.jsonl', [{'step': 0, 'stage': 'main'}, {'step': 20, 'stage': 'main'}])


def test_a_claim_is_run_and_kept_beside_its_config(folder, monkeypatch, capsys):
  runs = Runs(monkeypatch)
  assert main(['reproduce', 'mine']) == 0
  out = capsys.readouterr().out
  assert "| above 'off' by 0.1 | 0.4 | 0.4 to 0.4 | shows |" in out and '| off | 20 | 0.12 | 0.1 | 0 |' in out
  assert all('--config.population.size=5' in argv for argv in runs.argvs) and len(runs.argvs) == 2
  kept = json.loads((folder / 'results/mine.json').read_text())
  assert kept['verdict'] == 'shows' and kept['seeds'] == 5 and kept['versions']['jax']
  assert (folder / 'results/mine.png').stat().st_size < 40_000
  source = (folder / 'mine.py').read_text()
  assert catalogue.result(source).startswith("it shows. Final eval/game/first after 20 train steps")
  assert 'by hand' not in source and source.endswith(CONFIG.partition('lines.\n')[2])


def test_what_was_stopped_goes_on_and_what_ran_is_not_run_again(folder, monkeypatch, capsys):
  runs = Runs(monkeypatch, stop_at=1)
  assert main(['reproduce', 'mine']) == 75
  assert not (folder / 'results').exists() and len(runs.argvs) == 1
  assert main(['reproduce', 'mine']) == 0
  assert main(['reproduce', 'mine']) == 0
  assert len(runs.argvs) == 2


def test_a_control_that_passes_makes_the_verdict_fail(folder, monkeypatch, capsys):
  """Against the value itself, which the run without the mechanism comes to as well."""
  (folder / 'mine.py').write_text(CONFIG.replace("above('off', by=0.1)", 'reaches(0.3)'))
  Runs(monkeypatch, off=0.4)
  assert main(['reproduce', 'mine']) == 0
  assert "does not show: without the mechanism it holds as well: 'off'" in capsys.readouterr().out


def test_a_result_is_stale_when_its_config_changes_and_not_when_its_bound_does(folder, monkeypatch, capsys):
  Runs(monkeypatch)
  main(['reproduce', 'mine'])
  stands = lambda: results.standing('mine', claims.of('mine'))
  source = (folder / 'mine.py').read_text()
  assert stands() == results.SHOWN
  (folder / 'mine.py').write_text(source.replace('by=0.1', 'by=0.9'))
  assert stands() == results.SHOWN and results.kept('mine', claims.of('mine')).verdict == 'does not show'
  (folder / 'mine.py').write_text(source.replace('= 20, 4, 4', '= 40, 4, 4'))
  assert stands() == results.STALE
  capsys.readouterr()
  assert main(['reproduce', 'mine', '--list']) == 0
  assert 'mine.py  S000  stale' in capsys.readouterr().out
  (folder / 'results/mine.json').unlink()
  assert stands() == results.NOT_RUN


def test_what_is_given_an_argument_is_tried_and_not_kept(folder, monkeypatch, capsys):
  runs = Runs(monkeypatch)
  assert main(['reproduce', 'mine:smoke']) == 0
  assert runs.argvs[0][0].endswith('mine.py:smoke') and not (folder / 'results').exists()
  assert main(['reproduce', 'mine', '--output=elsewhere']) == 0
  assert not (folder / 'results').exists() and (folder / 'elsewhere').exists()
  assert (folder / 'mine.py').read_text() == CONFIG


def test_metrics_that_are_not_evaluations_are_read_from_one_run_a_seed(folder, monkeypatch):
  (folder / 'mine.py').write_text(CONFIG.replace("final('eval/game/first')", "final('reward/mean')"))
  runs, forgotten = [], []
  monkeypatch.setattr(reproduce, 'run_here', runs.append)
  monkeypatch.setattr(reproduce, '_forget_programs', lambda: forgotten.append(len(runs)))
  with pytest.raises(FileNotFoundError):  # nothing was run
    reproduce.run('mine', claims.of('mine'), folder / 'runs')
  assert [x for argv in runs for x in argv if 'seed=' in x] == [f'--config.seed={x}' for x in range(5)]
  assert forgotten == [1, 2, 3, 4, 5]  # else the programs of many runs fill the memory of the process


@pytest.mark.parametrize('argv, words', [
    ([], 'say which config'),
    (['quickstart/arithmetik'], "did you mean 'quickstart/arithmetic'?"),
    (['llm/sft'], 'llm/sft claims nothing'),
    (['--changed=nowhere'], '--changed=nowhere: '),
])
def test_mistakes_are_one_line(argv, words, capsys):
  assert main(['reproduce', *argv]) == 2
  said = capsys.readouterr().err
  assert words in said and said.count('\n') == 1


@pytest.mark.slow
def test_a_changed_file_touches_the_claims_that_read_it():
  name = 'control/two_players'
  known = {name: claims.of(name)}
  asked = lambda path: imports.touched(known, [imports.ROOT / path])
  for path in ('rlx/rollout/control/games.py', 'rlx/run/train.py', f'experiments/configs/{name}.py'):
    assert (imports.ROOT / path).exists() and asked(path) == [name], path
  others = ('rlx/algorithms/pav.py', 'rlx/envs/arithmetic.py', 'experiments/configs/control/td3_pendulum.py')
  for path in others:
    assert (imports.ROOT / path).exists() and asked(path) == [], path


def test_documents_are_as_the_results_say():
  """What was edited by hand, in a table or in a result, does not stand."""
  page = (papers.ROOT / 'docs/control.md').read_text()
  assert page == papers.control_page(page), 'run: python -m rlx.experiments.papers'
  (row,) = [line for line in page.splitlines() if '[control/two_players]' in line]
  edited = page.replace(row, row.replace('0.125', '0.126'))
  assert edited != page and papers.control_page(edited) == page


def test_docstrings_and_files_are_as_the_results_say(tmp_path):
  for name, claim in claims.named().items():
    if result := results.kept(name, claim):
      again = 'run: rlx reproduce ' + name
      assert catalogue.result(claims.configs.find(name).read_text()) == results.sentence(result), again
      results.write(result, tmp_path / 'x.json')
      path = claims.result_path(name)
      assert json.loads((tmp_path / 'x.json').read_text()) == json.loads(path.read_text()), again
      assert path.with_suffix('.png').stat().st_size < 40_000


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on(folder):
  """Of a process that is stopped while its first arm learns."""
  command = [sys.executable, '-m', 'rlx.experiments.launch', 'reproduce', 'mine']
  process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
  while not list(folder.glob('runs/reproduce/**/checkpoints/4')):
    time.sleep(0.02)
    assert process.poll() is None
  process.send_signal(signal.SIGKILL)
  process.wait()
  assert not (folder / 'results').exists()
  (first,) = folder.glob('runs/reproduce/**/seeds')
  before = (first / 'starts.jsonl').read_text()
  assert subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode == 0
  starts = (first / 'starts.jsonl').read_text()
  assert starts.startswith(before) and json.loads(starts.splitlines()[-1])['step'] >= 4
  assert json.loads((folder / 'results/mine.json').read_text())['arms']['run']['budget'] == 20


# --- claims that are run again ------------------------------------------------------------------------------


def test_what_is_run_again_can_fail_and_reads_what_has_changed(monkeypatch):
  known = {'a/reads': 1, 'b/reads_not': 2, 'c/shows_nothing': 3, 'd/lost_commit': 4}
  part = lambda shows: types.SimpleNamespace(shows=shows)

  def kept(name, claim):
    commit = 'gone' if 'lost' in name else '0123456, changed'
    return types.SimpleNamespace(kept={'versions': {'commit': commit}}, parts=[part('nothing' not in name)])

  def changed(commit):
    if commit == 'gone':
      raise claim_tests.CommandError('no such commit')
    assert commit == '0123456'
    return [imports.ROOT / 'rlx/losses/policy.py']

  monkeypatch.setattr(results, 'kept', kept)
  monkeypatch.setattr(imports, 'changed_files', changed)
  others = {'b/reads_not': {'rlx.losses.weights'}}
  monkeypatch.setattr(
      imports, 'read_by', lambda name, claim, arrows: others.get(name, {'rlx.losses.policy'})
  )
  assert {name for name, _ in claim_tests._changed(known)} == {'a/reads', 'd/lost_commit'}


@pytest.mark.parametrize(('pace', 'fitting'), [
    (1.0, ['short', 'middle', 'longer', 'shortest']),
    (2.0, ['short', 'middle', 'shortest']),
    (4.0, ['short']),
])
def test_as_many_claims_are_run_again_as_fit(pace, fitting, monkeypatch):
  """The first one at twice what is kept of it, and the others as this machine has turned out to be."""
  seconds, now = {'long': 500, 'short': 150, 'middle': 90, 'longer': 200, 'shortest': 30}, [0.0]
  monkeypatch.setattr(reproduce, 'estimate', lambda name, claim: seconds[name])
  monkeypatch.setattr(claim_tests.time, 'monotonic', lambda: now[0])
  ran = []
  for name, _ in claim_tests._fitting([(name, None) for name in seconds], 10.0):
    ran.append(name)
    now[0] += pace * seconds[name]
  assert ran == fitting


@pytest.mark.parametrize(('reason', 'said', 'passed'), [
    ('', 'yes', True), (claims.OPEN, 'open', True), ('the run fails it', 'no', False),
])
def test_what_the_seeds_leave_open_is_no_failure(reason, said, passed, monkeypatch):
  part = lambda reason: types.SimpleNamespace(shows=not reason, reason=reason)

  def result(*reasons):
    return types.SimpleNamespace(
        parts=[part(x) for x in reasons], verdict='', kept={'cpu_seconds': 60, 'versions': {}}
    )

  monkeypatch.setattr(results, 'kept', lambda *_: result('', 'the run fails it'))
  monkeypatch.setattr(reproduce, 'run', lambda *_: result(reason, 'the run fails it'))
  row, ok = claim_tests.check('a/config', types.SimpleNamespace(paper='S000'), None)
  assert ok == passed and f'| {said} | 1.0 |' in row
