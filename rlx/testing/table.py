"""What became of the faults, as a page: one line for each kind and run."""

from collections.abc import Iterable, Mapping
import json
import os
from pathlib import Path
import platform

import jax

HEAD = """# Reliability

Runs that were hit, and what became of them. Written by
`python -m rlx.testing.faults --out=docs/reliability.md` (`make test-faults`, which goes on where it was
stopped). Every hit is on a process of its own that does what the launcher does, with the smallest run of each
kind; behind it the same command was given again until the run was finished.

- **bitwise**: the finished `metrics.jsonl`, samples, and every array of the last state are those of a run
  that nobody disturbed; where the run's own parts misbehave, of the same run without the kill.
- **refused**: exit code 2 and one line that says what is wrong. Of a damaged checkpoint: all that there were.
  Of a data file: until it was put back, and then bitwise.
- **crash**: a traceback.
- **silent**: anything else, such as a run that ends as if nothing had happened, with other numbers.

Kills are drawn over the whole life of a process, its start included, at most {kills} in one run. Of the
damages one in ten is of every checkpoint that the run has. A full run is {full};
the column of hits says how many were made.

| fault | run | hits | bitwise | refused | crash | silent | minutes | commit |
|---|---|--:|--:|--:|--:|--:|--:|---|
"""
OUTCOMES = ('bitwise', 'refused', 'crash', 'silent')


def read(path: Path) -> list[dict]:
  """The rows of a file of results; one that was torn when it was written is left out."""
  rows = []
  for line in path.read_text().splitlines() if path.exists() else []:
    try:
      rows.append(json.loads(line))
    except ValueError:
      continue
  return rows


def write(
    path: Path, rows: Iterable[Mapping], whats: Mapping[str, str], algorithms: Mapping[str, str], kills: int,
    full: str,
) -> None:
  """Writes the page.

  Args:
    path: of the page.
    rows: of results; of a kind and a run, those of the newest commit count.
    whats: kind -> what it is, in the order of the table.
    algorithms: run -> what it is.
    kills: the most in one run.
    full: how many hits there should be.
  """
  groups: dict[tuple, list] = {}
  for row in rows:
    groups.setdefault((row['kind'], row['run']), []).append(row)
  lines = []
  for (kind, run), group in sorted(groups.items(), key=lambda item: list(whats).index(item[0][0])):
    newest = [row for row in group if row['commit'] == group[-1]['commit']]
    counts = [sum(row['hits'] for row in newest if row['outcome'] == one) for one in OUTCOMES]
    minutes = sum(row['seconds'] for row in newest) / 60
    cells = [whats[kind], algorithms[run], sum(counts), *counts, f'{minutes:.1f}', newest[0]['commit']]
    lines.append(f'| {" | ".join(map(str, cells))} |')
  machine = f'\njax {jax.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores.\n'
  path.write_text(HEAD.format(kills=kills, full=full) + '\n'.join(lines) + '\n' + machine)
