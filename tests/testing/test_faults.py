"""Faults, a sample that takes seconds: the smallest run, hit through the launcher, is the same."""

import json
from pathlib import Path
import random
import subprocess
import sys

import pytest

from rlx.testing import table
from rlx.testing.damage import DAMAGES, damage

ROOT = Path(__file__).parents[2]
CONFIG = """
from points import config_of, stage

def get_config(arg=''):
  return config_of(('main',), main=stage(steps=16))
"""
PROGRAM = """
import dataclasses, sys
sys.path[:0] = [{pieces!r}]
from rlx.testing import faults
from rlx.testing.subjects import Subject

point = Subject('a point', ('--config={config}',), 16)
on_point = lambda name: dataclasses.replace(faults.KINDS[name], subjects={{'point': point}})
faults.KINDS = {{name: on_point(name) for name in {kinds}}}
sys.exit(faults.main(['--out={out}', '--work={work}', '--count=1']))
"""


def hit(folder, kinds):
  """Runs the command on the smallest run; its table and its results."""
  (folder / 'point.py').write_text(CONFIG)
  program = PROGRAM.format(
      pieces=str(ROOT / 'tests/run'), config=folder / 'point.py', kinds=kinds, out=folder / 'table.md',
      work=folder / 'work',
  )
  command = [sys.executable, '-c', program]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
  assert 'Traceback' not in done.stderr, done.stderr
  return done.returncode, (folder / 'table.md').read_text(), table.read(folder / 'work/results.jsonl')


@pytest.mark.slow
def test_a_run_that_is_killed_and_damaged_is_the_same_to_the_bit(tmp_path):
  kinds = ['kill', 'damage']
  code, page, rows = hit(tmp_path, kinds)
  assert code == 0, rows
  assert [row['kind'] for row in rows if row['hits']] == kinds
  assert {row['outcome'] for row in rows} == {'bitwise'}
  assert '| SIGKILL at a random moment | a point | 1 | 1 | 0 | 0 | 0 |' in page
  again, _, same = hit(tmp_path, kinds)  # everything is done
  assert (again, same) == (0, rows)


@pytest.mark.slow
def test_the_other_kinds(tmp_path):
  code, _, rows = hit(tmp_path, ['terminate', 'interrupt', 'disk'])
  assert code == 0 and {row['outcome'] for row in rows} == {'bitwise'}, rows


@pytest.mark.slow  # every kind on the runs it is meant for: some minutes
def test_every_kind_once(tmp_path):
  command = [sys.executable, '-m', 'rlx.testing.faults', f'--out={tmp_path}/t.md', f'--work={tmp_path}/work']
  done = subprocess.run([*command, '--count=1'], cwd=ROOT, capture_output=True, text=True)
  assert done.returncode == 0, done.stdout + done.stderr


def test_silence_and_crashes_are_counted_and_newer_commits_replace_older_ones(tmp_path):
  results = tmp_path / 'results.jsonl'
  row = {'kind': 'kill', 'run': 'sac', 'commit': 'old', 'seconds': 60.0, 'hits': 9, 'outcome': 'bitwise'}
  rows = [row, {**row, 'commit': 'new', 'hits': 2}, {**row, 'commit': 'new', 'hits': 1, 'outcome': 'silent'}]
  results.write_text(''.join(json.dumps(one) + '\n' for one in rows) + '{"kind": "ki')  # torn
  assert table.read(results) == rows
  table.write(tmp_path / 't.md', table.read(results), {'kill': 'killed'}, {'sac': 'SAC'}, 8, '50 x 5')
  assert '| killed | SAC | 3 | 2 | 0 | 0 | 1 | 2.0 | new |' in (tmp_path / 't.md').read_text()


def test_damage_is_drawn_from_its_seed_and_changes_one_file(tmp_path):
  def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}

  said = []
  for i in range(30):
    for twin in 'ab':
      folder = tmp_path / f'{i}{twin}'
      folder.mkdir()
      for name in ('large', 'small'):
        (folder / name).write_bytes(bytes(range(200 if name == 'large' else 3)))
    before = files(tmp_path / f'{i}a')
    said.append([damage(tmp_path / f'{i}{twin}', random.Random(i)) for twin in 'ab'])
    after = files(tmp_path / f'{i}a')
    assert after == files(tmp_path / f'{i}b') and said[-1][0] == said[-1][1]
    assert len([name for name in before if before[name] != after.get(name)]) == 1
  assert {text.split()[0] for text, _ in said} == {'flip', 'leave', 'delete'} and len(DAMAGES) == 3
