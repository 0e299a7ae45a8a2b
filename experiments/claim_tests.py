"""Runs claims again, from nothing, and writes which still show what is kept of them, and when that was seen.

    python -m rlx.experiments.claim_tests --claims S074 credit/pav_chain  # by paper's id or by config
    python -m rlx.experiments.claim_tests --shard=1/4    # every fourth of those that are not in the table

What is compared are verdicts, by intervals, and not bits, which other versions of jax do not keep. A claim
that the table already has is not run again unless it is named: stop whenever you like, and start again. The
runs of a call are removed at its end.
"""

import argparse
from collections.abc import Iterable
import datetime
import pathlib
import shutil
import sys

from rlx.experiments import claims, reproduce, results, slow_tests
from rlx.experiments.claims import Claim
from rlx.experiments.commands import CommandError
from rlx.experiments.launch import use_compilation_cache

HEAD = """# Claims, as they were run again

`make test-claims CLAIMS="S074 S237"` runs claims from nothing and compares what shows with what is kept
beside their configs ([papers.md](papers.md)); without `CLAIMS`, all that this table does not have.
On {where}, often with other work beside it.

| config | id | kept | seen again | passed | CPU-minutes | day | commit |
|---|---|---|---|---|---|---|---|
"""


def main(argv: list[str]) -> int:
  """Runs what is asked for; 1 where a claim does not show what is kept of it."""
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--out', type=pathlib.Path, default=slow_tests.ROOT / 'docs' / 'claims.md')
  parser.add_argument('--claims', nargs='*', default=(), help='ids of papers, or configs')
  parser.add_argument('--shard', default='1/1', metavar='I/N', help='every Nth of them, the Ith first')
  parser.add_argument('--workdir', type=pathlib.Path, default=pathlib.Path('runs/claims'))
  arguments = parser.parse_args(argv)
  use_compilation_cache()
  rows, failed = slow_tests.read(arguments.out), 0
  workdir = arguments.workdir / slow_tests.commit()
  for name, claim in _shard(_asked(arguments.claims, rows), arguments.shard):
    rows[name], passed = check(name, claim, workdir)
    failed += not passed
    slow_tests.write(arguments.out, rows, HEAD)
    print(rows[name], flush=True)
  shutil.rmtree(workdir, ignore_errors=True)
  return int(failed > 0)


def _asked(words: Iterable[str], rows) -> list[tuple[str, Claim]]:
  """The claims that were run before and are named, or else are not in the table; the shortest first."""
  known = {name: x for name, x in claims.named().items() if results.kept(name, x)}
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
  passed = all(new.shows or not old.shows for old, new in zip(before.parts, now.parts, strict=True))
  row = (
      f'| `{name}` | {claim.paper} | {before.verdict} | {now.verdict} | {"yes" if passed else "no"} '
      f'| {now.kept["cpu_seconds"] / 60:.1f} | {datetime.date.today()} | {slow_tests.commit()} |'
  )
  return row, passed


if __name__ == '__main__':
  try:
    sys.exit(main(sys.argv[1:]))
  except CommandError as error:
    sys.exit(f'claim_tests: {error}')
