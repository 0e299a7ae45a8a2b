"""`python -m rlx.testing.faults`: hits runs with faults, and writes what became of them to a table.

A run of a config is started through the launcher, hit, and started again by the same command until it is
finished. Its `metrics.jsonl`, samples and the arrays of its last state are then those of a run that nobody
disturbed, to the bit; or it was refused in one line, or went on and said what it left out. Anything else is
*silent* or a *crash*, and a bug.

What was done is kept in `--work` as it is done: the same command goes on from there. A hit is drawn from its
kind, its run and its number alone.
"""

from collections.abc import Callable, Iterator, Mapping
import dataclasses
import json
from pathlib import Path
import random
import shutil
import signal
import socket
import sys
import time

from rlx.experiments.commands import EXIT_DO_NOT_RETRY, EXIT_DONE, EXIT_REQUEUE, CommandError, Parser
from rlx.run import version
from rlx.run.writers import read_metrics
from rlx.testing import full_disk, table
from rlx.testing.damage import damage
from rlx.testing.processes import Ended, Process
from rlx.testing.subjects import NAN, NAN_FOR_GOOD, PEERS, REWARDS, SUBJECTS, TOOLS, Subject

SECONDS = 900.0  # for a process, on a busy machine
KILLS_A_LIFE = 8  # of a run before it may finish
_CONTINUED_SECONDS = 0.15  # a dispatch, an evaluation and a save take about as long


@dataclasses.dataclass(frozen=True)
class Bench:
  """Where runs are made.

  Attributes:
    work: holds the undisturbed runs, those at work, compiled programs and results.
    commit: of the code.
  """

  work: Path
  commit: str

  @property
  def data(self) -> Path:
    """Copies of the data files, which nobody changes."""
    return self.work / 'data'

  def start(self, subject: Subject, workdir: Path, hook=None, data: Path | None = None) -> Process:
    """Starts the command of a run."""
    return Process(subject.command(workdir, data or self.data), workdir.with_name('said'), hook)

  def finish(self, subject: Subject, workdir: Path, data: Path | None = None) -> Ended:
    """The same command again until it no longer asks for it."""
    while (ended := self.start(subject, workdir, data=data).wait(SECONDS)).code == EXIT_REQUEUE:
      pass
    return ended

  def undisturbed(self, name: str, subject: Subject) -> Path:
    """The directory of a run that nobody hit; made once for a commit."""
    workdir = self.home(name)
    if not (workdir.parent / 'seconds.json').exists():
      shutil.rmtree(workdir.parent, ignore_errors=True)
      workdir.parent.mkdir(parents=True)
      self.start(subject, workdir).wait(SECONDS)  # compiles
      shutil.rmtree(workdir, ignore_errors=True)
      began, process = time.monotonic(), self.start(subject, workdir)
      wait_for_rows(process, workdir, 1)
      seconds, ended = time.monotonic() - began, process.wait(SECONDS)
      if ended.code != EXIT_DONE:
        raise RuntimeError(f'{name} does not run undisturbed: exit code {ended.code}, {ended.errors}')
      (workdir.parent / 'said.txt').write_text(ended.errors)
      (workdir.parent / 'seconds.json').write_text(json.dumps(seconds))
    return workdir

  def home(self, name: str) -> Path:
    """The directory of a run that nobody hit, for a commit."""
    return self.work / 'undisturbed' / self.commit.replace(', ', '-') / name / 'run'

  def scratch(self, *names: str) -> Path:
    """A fresh directory for one run."""
    folder = self.work.joinpath('at_work', *names)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder / 'run'


@dataclasses.dataclass(frozen=True)
class Result:
  """What became of some hits on one run: one of `table.OUTCOMES`, and why."""

  hits: int
  outcome: str
  note: str = ''


# --- comparing ----------------------------------------------------------------------------------------------


def num_rows(workdir: Path) -> int:
  """Rows of metrics so far."""
  path = workdir / 'metrics.jsonl'
  return path.read_bytes().count(b'\n') if path.exists() else 0


def wait_for_rows(process: Process, workdir: Path, count: int) -> None:
  """Until so many rows are there, or it has ended."""
  while process.poll() is None and num_rows(workdir) < count:
    time.sleep(0.005)


def differences(workdir: Path, other: Path) -> list[str]:
  """What is not the same in two finished runs, to the bit."""
  found = []
  if (workdir / 'metrics.jsonl').read_bytes() != (other / 'metrics.jsonl').read_bytes():
    found.append('metrics.jsonl')
  mine, theirs = _arrays(workdir), _arrays(other)
  found += [name for name in sorted(mine.keys() | theirs.keys()) if mine.get(name) != theirs.get(name)]
  samples = lambda run: {path.name: path.read_bytes() for path in (run / 'samples').glob('*')}
  return found + (['samples'] if samples(workdir) != samples(other) else [])


def _arrays(workdir: Path) -> dict[str, str]:
  """Array -> digest, of the newest checkpoint."""
  steps = [path for path in (workdir / 'checkpoints').iterdir() if path.name.isdecimal()]
  newest = max(steps, key=lambda path: int(path.name))
  arrays = json.loads((newest / 'manifest.json').read_text())['arrays']
  return {f'{newest.name}/{name}': array['digest'] for name, array in arrays.items()}


def compared(hits: int, ended: Ended, workdir: Path, other: Path, note: str = '') -> Result:
  """What became of a run that was started until it ended."""
  if ended.is_refusal:
    return Result(hits, 'refused', ended.errors.strip().splitlines()[-1])
  if ended.code != EXIT_DONE:
    return Result(hits, 'crash', f'{note}: exit code {ended.code}: {ended.errors[-400:]}')
  found = differences(workdir, other)
  return Result(hits, 'silent', f'{note}: other {found[:5]}') if found else Result(hits, 'bitwise', note)


# --- kinds of faults ----------------------------------------------------------------------------------------


def kill(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """SIGKILL at random moments of one run, while it starts as well, then the end."""
  other = bench.undisturbed(name, subject)
  start_seconds = json.loads((other.parent / 'seconds.json').read_text())
  workdir, hits = bench.scratch('kill', name), 0
  for _ in range(min(left, KILLS_A_LIFE)):
    process = bench.start(subject, workdir)
    if rng.random() < 0.25:
      time.sleep(rng.uniform(0, start_seconds))
    else:
      wait_for_rows(process, workdir, num_rows(workdir) + rng.randint(1, 5))
      time.sleep(rng.uniform(0, _CONTINUED_SECONDS))
    process.send(signal.SIGKILL)
    if (ended := process.wait(SECONDS)).code != -signal.SIGKILL:
      break
    hits += 1
  else:
    ended = bench.finish(subject, workdir)
  return compared(hits, ended, workdir, other)


def _stop(number: int) -> Callable:
  def stop(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
    """A signal at a random row, which saves, exits with 75, and goes on by the same command."""
    del left
    other, workdir = bench.undisturbed(name, subject), bench.scratch(signal.Signals(number).name, name)
    process = bench.start(subject, workdir)
    wait_for_rows(process, workdir, rng.randint(1, subject.steps - 4))
    time.sleep(rng.uniform(0, _CONTINUED_SECONDS))
    process.send(number)
    ended = process.wait(SECONDS)
    if ended.code == EXIT_DONE:
      return Result(0, 'bitwise', 'it was faster')
    if ended.code != EXIT_REQUEUE or 'the same command goes on' not in ended.out:
      return Result(1, 'crash', f'exit code {ended.code}: {ended.errors[-400:]}')
    return compared(1, bench.finish(subject, workdir), workdir, other)

  return stop


def damaged(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """A bit, an end or a file of the newest checkpoint is lost; of both, one time in ten."""
  del left
  other, workdir = bench.undisturbed(name, subject), bench.scratch('damage', name)
  shutil.copytree(_stopped(bench, name, subject), workdir)
  newest, *older = sorted((workdir / 'checkpoints').iterdir(), key=lambda path: -int(path.name))
  done = [damage(newest, rng)]
  if rng.random() < 0.1:
    done += [damage(step, rng) for step in older]
  ended = bench.finish(subject, workdir)
  if ended.code == EXIT_DONE and f'checkpoint of step {newest.name} is damaged' not in ended.errors:
    return Result(1, 'silent', f'{done} was believed')
  return compared(1, ended, workdir, other, str(done))


def _stopped(bench: Bench, name: str, subject: Subject) -> Path:
  """A run that was stopped three quarters of its way, and has two checkpoints; made once."""
  workdir = bench.undisturbed(name, subject).parent / 'stopped' / 'run'
  if not (workdir.parent / 'done').exists():
    shutil.rmtree(workdir.parent, ignore_errors=True)
    process = bench.start(subject, workdir)
    wait_for_rows(process, workdir, subject.steps * 3 // 4)
    process.send(signal.SIGTERM)
    if (ended := process.wait(SECONDS)).code != EXIT_REQUEUE:
      raise RuntimeError(f'{name} does not stop: exit code {ended.code}: {ended.errors}')
    (workdir.parent / 'done').touch()
  return workdir


def disk(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """No space is left for one of the writers from a random call on, until the run is started again."""
  del left
  other, workdir = bench.undisturbed(name, subject), bench.scratch('disk', name)
  writer = rng.choice(full_disk.WRITERS)
  calls = rng.randint(1, subject.steps // 2 - 2)
  ended = bench.start(subject, workdir, full_disk.hook(writer, calls)).wait(SECONDS)
  note = f'{writer}, call {calls}'
  if ended.code == EXIT_DONE and (found := differences(workdir, other)):
    return Result(1, 'silent', f'{note}: exit code 0, other {found[:5]}')
  if 'No space left' not in ended.errors:
    return Result(1, 'silent', f'{note}: exit code {ended.code}, and not a word')
  result = compared(1, bench.finish(subject, workdir), workdir, other, note)
  if ended.is_crash and result.outcome == 'bitwise':
    why = ended.errors.strip().splitlines()[-1]
    return Result(1, 'crash', f'{note}: exit code {ended.code}, then bitwise: {why}')
  return result


def data(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """The training file changes while the run is stopped: it is refused until the file is put back."""
  del left
  workdir = bench.scratch('data', name)
  files = workdir.with_name('files')
  shutil.copytree(bench.data, files)  # another path, and so a run of its own
  other = workdir.with_name('other')
  bench.finish(subject, other, files)
  process = bench.start(subject, workdir, data=files)
  wait_for_rows(process, workdir, rng.randint(3, subject.steps - 4))
  process.send(signal.SIGTERM)
  if (ended := process.wait(SECONDS)).code != EXIT_REQUEUE:
    return Result(1, 'crash', f'exit code {ended.code}: {ended.errors[-400:]}')
  path = files / 'train.jsonl'
  before = path.read_bytes()
  lines = before.splitlines(keepends=True)
  path.write_bytes(b''.join(rng.choice([lines[:-1], lines[::-1], [*lines, lines[0]]])))
  refused = bench.start(subject, workdir, data=files).wait(SECONDS)
  if not (refused.is_refusal and str(path) in refused.errors):
    return Result(1, 'silent', f'a changed file was read: exit code {refused.code}, {refused.errors[-300:]}')
  path.write_bytes(before)
  again = compared(1, bench.finish(subject, workdir, files), workdir, other)
  line = refused.errors.strip().splitlines()[-1]
  return Result(1, 'refused', line) if again.outcome == 'bitwise' else again


def nan(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """Numbers that are NaN now and then: an update is left out and said, a row is left out and counted; a kill
  in between changes nothing."""
  other = bench.undisturbed(name, subject)
  rows = read_metrics(other / 'metrics.jsonl')
  unscored = sum(row.get('reward/unscored_fraction', 0.0) for row in rows)
  if not unscored and 'infinite or NaN and is left out' not in (other.parent / 'said.txt').read_text():
    return Result(1, 'silent', 'no word and no count of what was left out')
  result = kill(bench, name, subject, rng, min(left, 1))
  return dataclasses.replace(result, hits=1)


def nan_for_good(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """Numbers that stay NaN: refused in one line, with a dump of the state before, and good checkpoints."""
  del rng, left
  workdir = bench.scratch('nan_for_good', name)
  ended = bench.start(subject, workdir).wait(SECONDS)
  if not ended.is_refusal or 'in a row were infinite or NaN' not in ended.errors:
    return Result(1, 'silent', f'exit code {ended.code}: {ended.errors[-300:]}')
  if not (workdir / 'nonfinite').is_dir():
    return Result(1, 'silent', 'there is no dump')
  return Result(1, 'refused', ended.errors.strip().splitlines()[-1])


def rewards(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """A reward in Python that fails now and then: its rows are left out, counted and said."""
  other = bench.undisturbed(name, subject)
  rows = read_metrics(other / 'metrics.jsonl')
  failed = sum(row.get('reward/failed', 0) for row in rows)  # no row has it before the first step
  if not failed or 'reward function failed' not in (other.parent / 'said.txt').read_text():
    return Result(1, 'silent', f'{failed} rows failed, and no word of it')
  result = kill(bench, name, subject, rng, min(left, 1))
  return dataclasses.replace(result, hits=1, note=f'{failed:.0f} rows were left out')


def tools(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """A tool that fails now and then: the policy reads so, it is counted, and episodes go on."""
  other = bench.undisturbed(name, subject)
  rows = read_metrics(other / 'metrics.jsonl')
  total = lambda prefix: sum(value for row in rows for key, value in row.items() if key.startswith(prefix))
  failed, calls = total('tools/failed_'), total('tools/calls')
  if not failed:
    return Result(1, 'silent', f'of {calls:.0f} calls an episode none failed')
  result = kill(bench, name, subject, rng, min(left, 1))
  return dataclasses.replace(result, hits=1, note=f'{failed / calls:.0%} of the calls failed')


def peers(bench: Bench, name: str, subject: Subject, rng: random.Random, left: int) -> Result:
  """One of two processes of a run is killed: the other ends with the requeue code, and both go on."""
  del left
  other = bench.home(name)
  if not (other.parent / 'done').exists():
    shutil.rmtree(other.parent, ignore_errors=True)
    other.parent.mkdir(parents=True)
    ended = [process.wait(SECONDS) for process in _pair(bench, subject, other)]
    if {one.code for one in ended} != {EXIT_DONE}:
      raise RuntimeError(f'{name} does not run undisturbed: {ended}')
    (other.parent / 'done').touch()
  workdir = bench.scratch('peers', name)
  pair = _pair(bench, subject, workdir)
  wait_for_rows(pair[0], workdir, rng.randint(1, subject.steps - 4))
  time.sleep(rng.uniform(0, _CONTINUED_SECONDS))
  dead = rng.randrange(2)
  pair[dead].send(signal.SIGKILL)
  killed, left_over = pair[dead].wait(SECONDS), pair[1 - dead].wait(SECONDS)
  if killed.code != -signal.SIGKILL:
    return Result(0, 'bitwise', 'it was faster')
  if left_over.code != EXIT_REQUEUE or 'another process of the run has ended' not in left_over.errors:
    return Result(1, 'crash', f'the other ended with {left_over.code}: {left_over.errors[-400:]}')
  again = [process.wait(SECONDS) for process in _pair(bench, subject, workdir)]
  worst = next((one for one in again if one.code != EXIT_DONE), again[0])
  return compared(1, worst, workdir, other, f'process {dead} was killed')


def _pair(bench: Bench, subject: Subject, workdir: Path) -> list[Process]:
  """A run in two processes of this machine."""
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
  meet = ['--distributed', f'--coordinator=127.0.0.1:{port}', '--num_processes=2', '--heartbeat_seconds=10']
  start = lambda index: Process(
      [*subject.command(workdir, bench.data), *meet, f'--process_id={index}'],
      workdir.with_name(f'said_{index}'), _four_devices,
  )
  return [start(index) for index in range(2)]


def _four_devices() -> None:
  import jax

  jax.config.update('jax_num_cpu_devices', 4)


@dataclasses.dataclass(frozen=True)
class Kind:
  """A kind of fault.

  Attributes:
    what: for the table.
    hit: `(bench, name, subject, rng, hits left) -> Result`.
    subjects: that are hit.
    count: hits on each, in a full run.
  """

  what: str
  hit: Callable[[Bench, str, Subject, random.Random, int], Result]
  subjects: Mapping[str, Subject]
  count: int


KINDS: Mapping[str, Kind] = {
    'kill': Kind('SIGKILL at a random moment', kill, SUBJECTS, 50),
    'terminate': Kind('SIGTERM at a random moment', _stop(signal.SIGTERM), SUBJECTS, 5),
    'interrupt': Kind('SIGINT (Ctrl-C) at a random moment', _stop(signal.SIGINT), SUBJECTS, 5),
    'damage': Kind('a checkpoint is damaged: bit, end, file', damaged, SUBJECTS, 25),
    'disk': Kind('no space left for one writer', disk, SUBJECTS, 4),
    'data': Kind('the data file changes while the run is stopped', data, {'sft': SUBJECTS['sft']}, 5),
    'nan': Kind('NaN now and then, and a kill', nan, NAN, 2),
    'nan_for_good': Kind('NaN from some step on', nan_for_good, NAN_FOR_GOOD, 1),
    'rewards': Kind('a reward in Python misbehaves, and a kill', rewards, REWARDS, 1),
    'tools': Kind('a tool in Python misbehaves, and a kill', tools, TOOLS, 1),
    'peers': Kind('one of two processes is killed', peers, PEERS, 10),
}


# --- the command --------------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
  """Runs the command; exit code 1 where something was silent or crashed."""
  arguments = _parser().parse_args(argv)
  kinds, runs = (_chosen(text, known) for text, known in (
      (arguments.kinds, KINDS), (arguments.runs, {name for kind in KINDS.values() for name in kind.subjects})
  ))  # fmt: skip
  work = Path(arguments.work).absolute()
  work.mkdir(parents=True, exist_ok=True)
  _compile_into(work / 'compiled')
  bench = Bench(work, version.of_rlx()['commit'] or version.of_rlx()['rlx'])
  results = work / 'results.jsonl'
  for kind, name in _everything(kinds, runs):
    for row in _go_on(bench, kind, name, results, arguments.count):
      print(f'{kind:<14}{name:<16}{row["outcome"]:<9}{row["hits"]} in {row["seconds"]:.0f} s', flush=True)
      if row['outcome'] in ('silent', 'crash'):
        print(f'  {row["note"]}', flush=True)
      _write(Path(arguments.out), results)
  _write(Path(arguments.out), results)
  bad = [row for row in table.read(results) if row['outcome'] in ('silent', 'crash')]
  return 1 if bad else EXIT_DONE


def _compile_into(folder: Path) -> None:
  """Compiled programs outlive the processes; read by JAX when it starts, in each of them."""
  import jax

  jax.config.update('jax_compilation_cache_dir', str(folder))


def _everything(kinds: list[str], runs: list[str]) -> Iterator[tuple[str, str]]:
  for kind in kinds:
    yield from ((kind, name) for name in KINDS[kind].subjects if name in runs)


def _go_on(bench: Bench, kind: str, name: str, results: Path, count: int) -> Iterator[dict]:
  """Hits a run until it has been hit as often as it should; yields what is written of each time."""
  wanted, key = count or KINDS[kind].count, {'kind': kind, 'run': name, 'commit': bench.commit}
  mine = lambda: [row for row in table.read(results) if key.items() <= row.items()]
  while (done := sum(row['hits'] for row in mine())) < wanted:
    began, life = time.monotonic(), len(mine())
    rng = random.Random(f'{kind}/{name}/{life}')
    result = KINDS[kind].hit(bench, name, KINDS[kind].subjects[name], rng, wanted - done)
    row = {**key, 'seconds': time.monotonic() - began, **dataclasses.asdict(result)}
    with results.open('a') as file:
      file.write(json.dumps(row) + '\n')
    yield row


def _write(out: Path, results: Path) -> None:
  whats = {kind: one.what for kind, one in KINDS.items()}
  algorithms = {name: one.algorithm for kind in KINDS.values() for name, one in kind.subjects.items()}
  full = ', '.join(f'{one.count} x {len(one.subjects)} of `{kind}`' for kind, one in KINDS.items())
  table.write(out, table.read(results), whats, algorithms, KILLS_A_LIFE, full)


def _chosen(text: str, known) -> list[str]:
  names = list(known) if text == 'all' else text.split(',')
  if unknown := sorted(set(names) - set(known)):
    raise CommandError(f'{",".join(unknown)} is none of {", ".join(known)}')
  return names


def _parser() -> Parser:
  parser = Parser(prog='python -m rlx.testing.faults', description=__doc__.partition('\n')[0])
  parser.add_argument('--out', required=True, metavar='FILE', help='the table, in Markdown')
  parser.add_argument('--kinds', default='all', metavar='A,B', help=f'of {", ".join(KINDS)}')
  parser.add_argument('--runs', default='all', metavar='A,B', help='that are hit; by default all')
  parser.add_argument('--count', type=int, default=0, metavar='N', help='hits on each; 0: the full number')
  parser.add_argument('--work', default='runs/faults', metavar='DIR', help='where it is at work, and goes on')
  return parser


if __name__ == '__main__':
  try:
    sys.exit(main(sys.argv[1:]))
  except CommandError as error:
    print(f'faults: {error}', file=sys.stderr)
    sys.exit(EXIT_DO_NOT_RETRY)
