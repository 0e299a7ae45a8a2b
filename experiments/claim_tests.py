"""Runs claims again, from nothing, and writes which still show what is kept of them, and when that was seen.

    python -m rlx.experiments.claim_tests --claims S074 credit/pav_chain  # by paper's id or by config
    python -m rlx.experiments.claim_tests --shard=1/4    # every fourth of those that are not in the table
    python -m rlx.experiments.claim_tests --changed --minutes=10   # what .ci/run does

What is compared are verdicts, by intervals, and not bits, which other versions of jax and other processors do
not keep. What showed and now is passed, but left open by the seeds, was close before: it is told as *open*,
and is no failure. A claim that the table already has is not run again unless it is named: stop whenever you
like, and start again. The runs of a call are removed at its end.

Nearly every change touches what nearly every claim reads, and all of them take a day: `--changed` takes those
that show something and whose code differs from the commit that they were run at, in an order that the day
draws, and of them as many as fit in so many minutes. So each change has some tried, and many days all.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping
import datetime
import functools
import math
import pathlib
import random
import shutil
import sys
import time

from rlx.experiments import claims, imports, reproduce, results, slow_tests
from rlx.experiments.claims import Claim
from rlx.experiments.commands import CommandError
from rlx.experiments.launch import use_compilation_cache

HEAD = """# Claims, as they were run again

`make test-claims CLAIMS="S074 S237"` runs claims from nothing and compares what shows with what is kept
beside their configs ([papers.md](papers.md)); without `CLAIMS`, all that this table does not have.
On {where}, often with other work beside it. `passed` is `yes` where at least as much shows again,
and `open` where the seeds of now leave open what was kept as shown.

| config | id | kept | seen again | passed | CPU-minutes | day | commit |
|---|---|---|---|---|---|---|---|
"""

CAUTION = 2.0  # times as long as is kept, until one has been run here: the machine may be slower


def main(argv: list[str]) -> int:
  """Runs what is asked for; 1 where a claim does not show what is kept of it."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--out', type=pathlib.Path, default=slow_tests.ROOT / 'docs' / 'claims.md')
  parser.add_argument('--claims', nargs='*', default=(), help='ids of papers, or configs')
  parser.add_argument('--shard', default='1/1', metavar='I/N', help='every Nth of them, the Ith first')
  parser.add_argument('--changed', action='store_true', help='whose code is not what they were run with')
  parser.add_argument('--minutes', type=float, default=math.inf, help='as many as fit, on two idle cores')
  parser.add_argument('--workdir', type=pathlib.Path, default=pathlib.Path('runs/claims'))
  arguments = parser.parse_args(argv)
  use_compilation_cache()
  rows, failed = slow_tests.read(arguments.out), 0
  workdir = arguments.workdir / slow_tests.commit()
  chosen = _changed(_kept()) if arguments.changed else _asked(arguments.claims, rows)
  for name, claim in _fitting(_shard(chosen, arguments.shard), arguments.minutes):
    rows[name], passed = check(name, claim, workdir)
    failed += not passed
    slow_tests.write(arguments.out, rows, HEAD)
    print(rows[name], flush=True)
  shutil.rmtree(workdir, ignore_errors=True)
  return int(failed > 0)


def _kept() -> dict[str, Claim]:
  """The claims that were run as they stand."""
  return {name: claim for name, claim in claims.named().items() if results.kept(name, claim)}


def _changed(known: Mapping[str, Claim]) -> list[tuple[str, Claim]]:
  """Those that show something and read a file which differs from the commit of their result, in an order that
  the day draws."""
  arrows = imports.graph()

  @functools.cache
  def since(commit: str) -> set[str]:
    try:
      return imports.modules_of(imports.changed_files(commit))
    except CommandError:  # of a branch that is gone: this clone has it not
      return set(arrows)

  def can_fail_now(name: str, claim: Claim) -> bool:
    result = results.kept(name, claim)
    commit = result.kept['versions']['commit'].partition(',')[0]
    shows = any(part.shows for part in result.parts)
    return shows and not since(commit).isdisjoint(imports.read_by(name, claim, arrows))

  lot = lambda one: random.Random(f'{datetime.date.today()} {one[0]}').random()
  return sorted((one for one in known.items() if can_fail_now(*one)), key=lot)


def _fitting(chosen: list, minutes: float) -> Iterator[tuple[str, Claim]]:
  """One after the other those that fit into what is left of the minutes, at the pace of those before them."""
  began, expected = time.monotonic(), 0.0
  for name, claim in chosen:
    seconds, spent = reproduce.estimate(name, claim), time.monotonic() - began
    pace = spent / expected if expected else CAUTION
    if pace * seconds <= 60 * minutes - spent:
      yield name, claim
      expected += seconds


def _asked(words: Iterable[str], rows) -> list[tuple[str, Claim]]:
  """The claims that were run before and are named, or else are not in the table; the shortest first."""
  known = _kept()
  named = lambda name, claim, word: word == name or word in claim.paper.split()
  for word in words:
    if not any(named(*one, word) for one in known.items()):
      raise CommandError(f'{word!r} is no config with a claim that was run, and no id of one')
  chosen = [
      (name, claim) for name, claim in known.items()
      if (any(named(name, claim, word) for word in words) if words else name not in rows)
  ]
  return sorted(chosen, key=lambda one: reproduce.estimate(*one))


def _shard(chosen: list, shard: str) -> list:
  index, _, count = shard.partition('/')
  if not (index.isdecimal() and count.isdecimal() and 1 <= int(index) <= int(count)):
    raise CommandError(f'--shard={shard}: it is written 2/4, the second of four')
  return chosen[int(index) - 1 :: int(count)]


def check(name: str, claim: Claim, workdir: pathlib.Path) -> tuple[str, bool]:
  """The table's row of a claim, and whether all that showed before shows again."""
  before, now = results.kept(name, claim), reproduce.run(name, claim, workdir)
  lost = [new for old, new in zip(before.parts, now.parts, strict=True) if old.shows and not new.shows]
  passed = all(part.reason == claims.OPEN for part in lost)
  said = 'no' if not passed else 'open' if lost else 'yes'
  row = (
      f'| `{name}` | {claim.paper} | {before.verdict} | {now.verdict} | {said} '
      f'| {now.kept["cpu_seconds"] / 60:.1f} | {datetime.date.today()} | {slow_tests.commit()} |'
  )
  return row, passed


if __name__ == '__main__':
  try:
    sys.exit(main(sys.argv[1:]))
  except CommandError as error:
    sys.exit(f'claim_tests: {error}')
