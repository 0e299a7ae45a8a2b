"""Runs the slow tests file by file, for hours if it must, and writes what passed and how long it took.

    python -m rlx.experiments.slow_tests --out docs/tests.md [--files tests/papers/test_pav.py ..]

Each file is a process of its own, so that memory is let go. A file that the table already has is not run
again: stop whenever you like, and start again. Named files are run in any case.
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).parents[1]
HEAD = """# Slow tests, as they were run

`make test-slow` takes hours. `python -m rlx.experiments.slow_tests` runs it in pieces, a file at a time, and
writes this table: what was run, when, at which commit, and how long it took (on {where}; one core, often
with other work on the other one).

| file | passed | failed | skipped | minutes | day | commit | failed tests |
|---|---|---|---|---|---|---|---|
"""
ROW = re.compile(r'^\| `(?P<file>[^`]+)` \|')


def main(argv: list[str]) -> int:
  """Runs what is not in the table yet; 1 where a test failed."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--out', type=pathlib.Path, default=ROOT / 'docs' / 'tests.md')
  parser.add_argument('--files', nargs='*', default=(), help='run these, in the table or not')
  args = parser.parse_args(argv)
  rows = read(args.out)
  failed = 0
  for file in args.files or [file for file in slow_files() if file not in rows]:
    rows[file], bad = run(file)
    failed += bad
    write(args.out, rows, HEAD)
    print(rows[file], flush=True)
  return int(failed > 0)


def slow_files() -> list[str]:
  """The test files that have slow tests, in order."""
  command = [sys.executable, '-m', 'pytest', '--collect-only', '-m', 'slow and not parity', '-q', '-q']
  found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
  return sorted({line.split(':')[0] for line in found.splitlines() if line.startswith('tests/')})


def run(file: str) -> tuple[str, int]:
  """The table's row of a file, and how many of its slow tests failed."""
  with tempfile.TemporaryDirectory() as folder:
    path = pathlib.Path(folder) / 'results.xml'
    command = [sys.executable, '-m', 'pytest', file, '-m', 'slow and not parity', f'--junitxml={path}']
    began = time.monotonic()
    code = subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=False).returncode
    minutes = (time.monotonic() - began) / 60
    cases = list(ElementTree.parse(path).iter('testcase')) if path.exists() else []
  outcome = lambda case, *kinds: any(case.find(kind) is not None for kind in kinds)
  bad = [case.get('name') for case in cases if outcome(case, 'failure', 'error')]
  bad += [f'the process, with code {code}'] * (not cases)
  skipped = sum(outcome(case, 'skipped') for case in cases)
  counts = f'{max(len(cases) - len(bad) - skipped, 0)} | {len(bad)} | {skipped} | {minutes:.1f}'
  names = ', '.join(f'`{name}`' for name in bad)
  return f'| `{file}` | {counts} | {datetime.date.today()} | {commit()} | {names} |', len(bad)


def commit() -> str:
  """Of the checkout."""
  return subprocess.run(
      ['git', 'rev-parse', '--short', 'HEAD'], cwd=ROOT, capture_output=True, text=True, check=True
  ).stdout.strip()


def read(path: pathlib.Path) -> dict[str, str]:
  """File -> its row in the table."""
  lines = path.read_text().splitlines() if path.exists() else []
  return {match['file']: line for line in lines if (match := ROW.match(line))}


def write(path: pathlib.Path, rows: dict[str, str], head: str) -> None:
  """The table, whole; `head` says {where}."""
  where = f'{os.cpu_count()} cores, Python {sys.version.split()[0]}'
  path.write_text(head.format(where=where) + ''.join(f'{rows[file]}\n' for file in sorted(rows)))


if __name__ == '__main__':
  sys.exit(main(sys.argv[1:]))
