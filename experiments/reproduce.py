"""`rlx reproduce CONFIG[:ARG] ...`: runs what configs claim, with its controls: what shows?

    rlx reproduce credit/pav_chain                    # a table: claimed, got, interval, verdict
    rlx reproduce --list                              # what was run, what is stale, what is not run
    rlx reproduce --all                               # all that are stale or not run, the shortest first
    rlx reproduce --changed=main                      # those whose code differs from that commit

A config whose file defines `claim()` (`experiments/claims.py`) can be named; an argument, such as `:smoke`,
comes on top of the claim's own. All seeds of an arm are a population where the config can be one, else a run
each. What was stopped goes on: start the same command again. The result is kept beside the config, with a
curve, and its docstring says it; with an argument, or `--output=DIR`, it is only written there, or nowhere.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import datetime
import json
from pathlib import Path
import re
import time

from rlx import config as configs
from rlx.experiments import claims, compare, imports, results
from rlx.experiments.claims import Arm, Claim
from rlx.experiments.commands import EXIT_DONE, EXIT_REQUEUE, CommandError, Parser
from rlx.experiments.results import Result
from rlx.experiments.sweep import run_here

DONE = 'done.json'  # of an arm that has run
SPENT = 'cpu_seconds'  # of it, each time that it was started
_FIGURE = {'inches': (6, 3.2), 'size': 8}
_CURVE_BYTES, _COLORS = 40_000, (32, 16, 8)  # of the curve that is kept: as many colors as there is room for


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  arguments = _parser().parse_args(argv)
  chosen = _chosen(arguments)
  if arguments.list:
    print(listing(chosen), end='')
    return EXIT_DONE
  failed = []
  for name, claim in chosen.items():
    print(f'{name}: about {_clock(estimate(name, claim))}', flush=True)
    try:
      finish(name, run(name, claim, Path(arguments.workdir)), arguments)
    except InterruptedError:
      print('stopped and saved; the same command goes on from there')
      return EXIT_REQUEUE
    except RuntimeError as error:  # one that fails leaves the others
      print(f'{name} failed: {error}', flush=True)
      failed.append(name)
  if failed:
    raise CommandError(f'{len(failed)} of {len(chosen)} failed: {", ".join(failed)}')
  return EXIT_DONE


def _chosen(arguments) -> dict[str, Claim]:
  """The claims that are asked for, the shortest first."""
  if arguments.configs:
    return {spelt(name): _claim(name) for name in arguments.configs}
  known = claims.named()
  if arguments.changed:
    touched = imports.touched(known, imports.changed_files(arguments.changed))
    known = {name: known[name] for name in touched}
  elif not (arguments.all or arguments.list):
    raise CommandError('say which config, or --all, --list, --changed; see rlx reproduce --help')
  if arguments.all:
    known = {name: claim for name, claim in known.items() if results.kept(name, claim) is None}
  return dict(sorted(known.items(), key=lambda one: estimate(*one)))


def _claim(path: str) -> Claim:
  name, colon, argument = path.partition(':')
  claim = claims.of(name)
  if claim is None:
    raise CommandError(
        f'{name} claims nothing: its file defines no claim(); `rlx reproduce --list` shows those that do'
    )
  return claims.with_argument(claim, argument) if colon else claim


def spelt(path: str) -> str:
  """The one name of a config, with the argument that stands in the claim's place."""
  name, colon, argument = path.partition(':')
  found = configs.find(name)
  known = {file: known for known, file in configs.names().items()}
  return known.get(found.resolve(), known.get(found, str(found))) + colon + argument


def estimate(name: str, claim: Claim) -> float:
  """Seconds on two idle cores: half of the CPU-seconds that it took, or else what its author says."""
  found = results.read(claims.result_path(_config(name)), name, claim)
  return found.kept['cpu_seconds'] / 2 if found else 60 * claim.minutes


def _config(name: str) -> str:
  """The config of a name that may have an argument."""
  return name.partition(':')[0]


def listing(chosen: dict[str, Claim]) -> str:
  """A line a claim: what it stands at, how long it takes, what it says."""
  lines = []
  for name, claim in chosen.items():
    found = results.kept(_config(name), claim)
    state = found.verdict if found else results.standing(_config(name), claim)
    lines.append(f'{_clock(estimate(name, claim)):>9}  {name}  {claim.paper}  {state}\n')
  return ''.join(lines)


def _clock(seconds: float) -> str:
  return f'{seconds:.0f} s' if seconds < 120 else f'{seconds / 60:.0f} min'


# --- arms ---------------------------------------------------------------------------------------------------


def run(name: str, claim: Claim, workdir: Path) -> Result:
  """Runs what is left of a claim's arms in a directory, and reads what they came to.

  Raises:
    InterruptedError: a run was stopped, and saved.
    RuntimeError: a run has failed.
  """
  config = _config(name)
  lines, seconds = {}, {}
  for arm in claim.arms:
    directory = _directory(config, claim, arm, workdir)
    runs = _run_arm(config, claim, arm, directory)
    line = lambda metric, runs=runs, arm=arm: _line(claim, arm, runs, metric)
    metrics = dict.fromkeys(x.metric for x in claim.readings.values())
    lines[arm.name] = {metric: line(metric) for metric in metrics}
    seconds[arm.name] = json.loads((directory / DONE).read_text())['cpu_seconds']
  result = results.make(config, claim, lines, seconds, _where())
  results.write(result, workdir / config / 'result.json')
  compare.draw(
      [results.thinned(by_metric[claim.reading.metric]) for by_metric in lines.values()],
      claim.reading.metric, claim.unit, workdir / config / 'curve.png', **_FIGURE,
  )
  return result


def _directory(config: str, claim: Claim, arm: Arm, workdir: Path) -> Path:
  """Of an arm's runs; claims whose arms are the same share them."""
  name = re.sub(r'\W+', '_', claims.path_of(config, claim, arm))
  return workdir / 'arms' / f'{name}-{claims.digest(config, claim, arm)}'


def _line(claim: Claim, arm: Arm, runs: list[Path], metric: str) -> compare.Line:
  """A metric of an arm's seeds against the budget."""
  line = compare.line_of(arm.name, {}, runs, metric, claim.budget)
  return dataclasses.replace(line, at=line.at * arm.cost)


def _run_arm(config: str, claim: Claim, arm: Arm, directory: Path) -> list[Path]:
  """The directories of an arm's runs, all of which are finished."""
  path, words = claims.path_of(config, claim, arm), [*claims.words(arm), *_plain(config, claim, arm)]
  first = claims.config_of(config, claim, arm).seed
  if claims.together(config, claim):
    runs = {directory / 'seeds': [f'--config.population.size={claim.seeds}']}
  else:
    alone = lambda seed: [f'--config.seed={seed}', '--config.population.size=1']
    runs = {directory / f'seed_{x}': alone(x) for x in range(first, first + claim.seeds)}
  if not (directory / DONE).exists():
    with _timed(directory):
      for run_directory, seeds in runs.items():
        run_here([f'--config={path}', f'--workdir={run_directory}', '--quiet', *words, *seeds])
        _forget_programs()
    seconds = sum(map(float, (directory / SPENT).read_text().split()))
    (directory / DONE).write_text(json.dumps({'cpu_seconds': seconds}) + '\n')
  return list(runs)


def _plain(config: str, claim: Claim, arm: Arm) -> list[str]:
  """Overrides for a run that nobody looks at: no samples to read and no tensorboard."""
  log = claims.config_of(config, claim, arm).log
  return ['--config.log.samples=0', *(['--config.log.writers=()'] if 'writers' in log else [])]


@contextlib.contextmanager
def _timed(directory: Path) -> Iterator[None]:
  """Adds the CPU-seconds that are spent inside to a file; the wall clock would tell of other work, too."""
  began = time.process_time()
  try:
    yield
  finally:
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / SPENT).open('a') as file:
      file.write(f'{time.process_time() - began:.1f}\n')


def _where() -> dict:
  """The kind of machine, and the versions."""
  import jax

  from rlx.run import version
  from rlx.run.checkpoint import environment

  now = environment()
  versions = {key: now[key] for key in ('jax', 'jaxlib', 'numpy', 'python')}
  return {
      'machine': f'{now["cores"]} cores of a {jax.default_backend().upper()}',
      'versions': {**version.of_rlx(), **versions},
      'day': datetime.date.today().isoformat(),
  }


def _forget_programs() -> None:
  """Compiled programs of one run are of no use to the next; those of sixteen filled a process's maps."""
  import jax

  jax.clear_caches()


# --- what is kept -------------------------------------------------------------------------------------------


def finish(name: str, result: Result, arguments) -> None:
  """Prints the table of a result and keeps it where it belongs; what was given an argument is only tried."""
  print(f'\n{results.table(result)}', flush=True)
  source = Path(arguments.workdir) / result.name
  if arguments.output:
    keep(result, source, Path(arguments.output) / f'{result.name}.json')
  elif name == result.name:
    keep(result, source, claims.result_path(result.name))
    results.record(result, configs.find(result.name))


def keep(result: Result, source: Path, path: Path) -> None:
  """Copies the result of a working directory, with its curve."""
  results.write(result, path)
  from PIL import Image

  curve, file = Image.open(source / 'curve.png').convert('RGB'), path.with_suffix('.png')
  for colors in _COLORS:
    curve.quantize(colors).save(file, optimize=True)
    if file.stat().st_size < _CURVE_BYTES:
      return


def _parser() -> Parser:
  parser = Parser(
      prog='rlx reproduce',
      description='Runs what configs claim: the config, the baseline at an equal budget, the controls.',
  )
  parser.add_argument('configs', nargs='*', metavar='CONFIG[:ARG]', help='with a claim(); as for rlx')
  parser.add_argument('--all', action='store_true', help='every one that is stale or not run, shortest first')
  parser.add_argument('--list', action='store_true', help='say what stands, and run nothing')
  parser.add_argument(
      '--changed', nargs='?', const='HEAD', metavar='COMMIT',
      help='those that read a file which differs from this commit (HEAD); with --list, only say which',
  )
  parser.add_argument('--workdir', default='runs/reproduce', metavar='DIR', help='of the runs; they resume')
  parser.add_argument('--output', metavar='DIR', help='for the results, which else lie beside the configs')
  return parser
