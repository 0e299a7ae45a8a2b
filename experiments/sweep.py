"""`rlx sweep --config=FILE --workdir=DIR --space.key=RANGE ...`: many runs of a config, and a table a factor.

    rlx sweep --config=quickstart/arithmetic --workdir=runs/sweep --trials=12 \\
        --space.optimizer.learning_rate=3e-4..3e-3:log --space.algorithm.clip_high=0.2,0.28

Optuna chooses the values and keeps what came of them in a journal file; submitit runs the trials, on this
machine or as arrays of Slurm jobs, by the same code; one that runs out of time is sent again
(docs/guides/launch.md). A trial is the run `rlx --config ...` in its own directory, so one that was stopped
goes on where it was: start the same command again. Seeds belong into the config
(`--config.population.size=5` is five of them in one program; the metric is then their median).
"""

from collections.abc import Callable, Sequence
import csv
import dataclasses
import itertools
import json
import math
from pathlib import Path
import statistics
import time

from rlx.experiments import jobs
from rlx.experiments.commands import EXIT_DONE, EXIT_REQUEUE, CommandError, Parser, natural, positive
from rlx.experiments.launch import main as launch

JOURNAL, TABLE, FACTORS = 'sweep.journal', 'trials.tsv', 'factors.md'
_ASKED = 'asked'  # what a study was begun with, among its attributes
_POLL_SECONDS = 1.0


@dataclasses.dataclass(frozen=True)
class Choice:
  """One of a few values, as they are written in a config."""

  values: tuple[str, ...]

  def suggest(self, trial, name: str) -> str:
    return trial.suggest_categorical(name, self.values)


@dataclasses.dataclass(frozen=True)
class Range:
  """A number from an interval; whole where both ends are."""

  low: float
  high: float
  log: bool

  def suggest(self, trial, name: str) -> str:
    if isinstance(self.low, int) and isinstance(self.high, int):
      return str(trial.suggest_int(name, self.low, self.high, log=self.log))
    return repr(trial.suggest_float(name, float(self.low), float(self.high), log=self.log))


@dataclasses.dataclass(frozen=True)
class Ended:
  """A trial that has ended in this process."""

  error: Exception | None

  def done(self) -> bool:
    return True

  def exception(self) -> Exception | None:
    return self.error


def main(argv: list[str]) -> int:
  """Runs the command; returns the exit code."""
  parser = _parser()
  parser.complete()
  arguments, rest = parser.parse_known_args(argv)
  space = {name: parse_space(name, text) for name, text in _with_prefix(rest, '--space.')}
  slurm = [x for x in rest if x.startswith(jobs.SLURM)]
  overrides = [x for x in rest if not x.startswith(('--space.', jobs.SLURM))]
  if not space:
    raise CommandError('nothing to sweep over; add a range, like --space.algorithm.clip_high=0.2,0.28')
  arguments.metric = arguments.metric or _headline(arguments.config)
  _check(arguments.config, space, overrides)
  workdir = Path(arguments.workdir)
  workdir.mkdir(parents=True, exist_ok=True)
  study = _study(workdir, arguments, space, overrides)
  try:
    _sweep(study, workdir, arguments, space, overrides, _submitter(workdir, arguments, slurm))
  except InterruptedError as stopped:
    print(stopped)
    return EXIT_REQUEUE
  print((workdir / FACTORS).read_text())
  return EXIT_DONE


def parse_space(name: str, text: str) -> Choice | Range:
  """A range as it is written: `a,b,c` or `low..high`, with `:log` for one that is drawn by its logarithm.

  Raises:
    CommandError: neither of the two.
  """
  low, dots, high = text.partition('..')
  if not dots:
    return Choice(tuple(text.split(',')))
  high, _, scale = high.partition(':')
  try:
    ends = [json.loads(x) for x in (low, high)]
    if scale in ('', 'log') and ends[0] < ends[1] and (ends[0] > 0 or not scale):
      return Range(*ends, log=bool(scale))
  except (ValueError, TypeError):
    pass
  raise CommandError(
      f'--space.{name}={text}: needs values (0.2,0.28), an interval (0.0..0.1), or one above 0 that is drawn '
      'by its logarithm (1e-4..1e-2:log)'
  )


def _with_prefix(arguments: Sequence[str], prefix: str):
  for argument in arguments:
    if argument.startswith(prefix):
      name, _, text = argument.removeprefix(prefix).partition('=')
      yield name, text


def _headline(path: str) -> str:
  """The metric that runs of a config are read by."""
  from rlx import config as configs

  return configs.load(path).log.headline


def _check(path, space, overrides) -> None:
  """A misspelt key is told before the first trial, by the errors of the launcher."""
  from rlx import config as configs

  config = configs.load(path)
  for name, text in _with_prefix(overrides, '--config.'):
    configs.override(config, name, text)
  for name, values in space.items():
    ends = values.values if isinstance(values, Choice) else (repr(values.low), repr(values.high))
    for text in ends:
      configs.override(config, name, text)
  if unknown := [x for x in overrides if not x.startswith('--config.')]:
    raise CommandError(f'{unknown[0]!r} is not understood; see rlx sweep --help')


def _study(workdir, arguments, space, overrides):
  import optuna
  from optuna.storages.journal import JournalFileBackend

  optuna.logging.set_verbosity(optuna.logging.WARNING)
  storage = optuna.storages.JournalStorage(JournalFileBackend(str(workdir / JOURNAL)))
  grid = arguments.sampler == 'grid'
  if grid and not all(isinstance(x, Choice) for x in space.values()):
    raise CommandError('--sampler=grid needs values, like --space.algorithm.clip_high=0.2,0.28')
  sampler = optuna.samplers.TPESampler if arguments.sampler == 'tpe' else optuna.samplers.RandomSampler
  study = optuna.create_study(
      study_name='sweep', storage=storage, sampler=sampler(seed=arguments.seed), load_if_exists=True,
      direction='minimize' if arguments.minimize else 'maximize',
  )
  _refuse_another(study, workdir, {
      'config': arguments.config, 'overrides': sorted(overrides), 'metric': arguments.metric,
      'minimize': arguments.minimize,
      'space': {name: repr(values) for name, values in space.items()},
  })
  # Optuna's own grid sampler ends only studies that call their objective themselves.
  for values in itertools.product(*(x.values for x in space.values())) if grid else ():
    study.enqueue_trial(dict(zip(space, values, strict=True)), skip_if_exists=True)
  return study


def _refuse_another(study, workdir: Path, asked: dict) -> None:
  """A directory keeps the trials of one sweep: its config, its overrides, its space and what it looks for."""
  kept = {**asked, **study.user_attrs.get(_ASKED, {})}
  if other := [name for name in asked if asked[name] != kept[name]]:
    was = '; '.join(f'its {name}: {kept[name]}' for name in other)
    raise CommandError(f'--workdir={workdir} holds another sweep ({was}); choose another directory')
  study.set_user_attr(_ASKED, asked)


def _sweep(study, workdir, arguments, space, overrides, submit: Callable[[list], list]) -> None:
  """Keeps so many trials running until all are done; those that a stopped sweep left behind come first."""
  import optuna

  state = optuna.trial.TrialState
  num_trials = arguments.trials
  if arguments.sampler == 'grid':
    num_trials = min(num_trials, math.prod(len(x.values) for x in space.values()))
  begun = lambda: sum(t.state != state.WAITING for t in study.get_trials(deepcopy=False))
  unfinished = [t.number for t in study.get_trials(deepcopy=False, states=(state.RUNNING,))]
  left_behind = [study.trials[number].user_attrs['argv'] for number in unfinished]
  running = dict(zip(unfinished, submit(left_behind), strict=True))

  def tell(number, job) -> None:
    error = job.exception()
    if error is not None:
      print(f'trial {number} failed: {str(error).splitlines()[-1]}; see {workdir / "jobs"}')
      study.tell(number, state=state.FAIL)
    else:
      study.tell(number, _metric(workdir / 'trials' / f'{number:04d}', arguments.metric))
    _write_tables(study, workdir, arguments.metric, space)

  while True:
    for number in [number for number, job in running.items() if job.done()]:
      tell(number, running.pop(number))
    fresh = {}
    while len(running) + len(fresh) < arguments.jobs and begun() < num_trials:
      trial = study.ask()
      values = [f'--config.{name}={x.suggest(trial, name)}' for name, x in space.items()]
      directory = workdir / 'trials' / f'{trial.number:04d}'
      argv = [f'--config={arguments.config}', f'--workdir={directory}', '--quiet', *overrides, *values]
      trial.set_user_attr('argv', argv)
      fresh[trial.number] = argv
    running |= zip(fresh, submit([*fresh.values()]), strict=True)
    if not running:
      break
    time.sleep(_POLL_SECONDS)
  _write_tables(study, workdir, arguments.metric, space)


def _submitter(workdir: Path, arguments, slurm: Sequence[str]) -> Callable[[list], list]:
  """What begins trials, all that are given at a time together: `argvs -> jobs`."""
  if arguments.cluster == 'here':
    if slurm or arguments.nodes > 1 or arguments.gpus or arguments.setup:
      raise CommandError('--nodes, --gpus, --setup and --slurm are for --cluster=local and --cluster=slurm')
    return lambda argvs: [_here(argv) for argv in argvs]
  executor = jobs.executor(arguments, workdir / 'jobs', slurm, name='rlx-sweep')
  return lambda argvs: jobs.submit(executor, argvs, arguments=arguments)


def run_here(argv: Sequence[str]) -> None:
  """Runs `rlx ...` in this process.

  Raises:
    InterruptedError: it was stopped, and goes on when it is run again.
    RuntimeError: it ended with another exit code than 0.
  """
  code = launch([*argv])
  if code == EXIT_REQUEUE:
    raise InterruptedError('the run was stopped and saved; the same command goes on with it')
  if code != EXIT_DONE:
    raise RuntimeError(f'rlx {" ".join(argv)} ended with exit code {code}')


def _here(argv: Sequence[str]) -> Ended:
  """A trial in this process; raises `InterruptedError` where it was stopped."""
  try:
    run_here(argv)
  except InterruptedError:
    raise
  except Exception as error:  # whatever it is, it is the end of this trial and not of the sweep
    return Ended(error)
  return Ended(None)


def _metric(workdir: Path, name: str) -> float:
  """The last value of a metric in a run."""
  from rlx.run.writers import read_metrics

  values = [row[name] for row in read_metrics(workdir / 'metrics.jsonl') if name in row]
  if not values:
    raise CommandError(f'--metric={name}: {workdir}/metrics.jsonl has no such metric')
  return values[-1]


def _write_tables(study, workdir: Path, metric: str, space) -> None:
  """`trials.tsv`, best first, and `factors.md`, what each value of each factor came to."""
  trials = [t for t in study.trials if t.value is not None]
  sign = 1 if study.direction.name == 'MINIMIZE' else -1
  trials.sort(key=lambda t: sign * t.value)
  with open(workdir / TABLE, 'w', newline='') as file:
    table = csv.writer(file, delimiter='\t')
    table.writerow(['trial', metric, *space])
    table.writerows([t.number, t.value, *(t.params[name] for name in space)] for t in trials)
  begun = sum(t.state.name != 'WAITING' for t in study.trials)
  lines = [f'{len(trials)} of {begun} trials have ended; {metric} by factor, over the others.\n']
  for name in space:
    lines += [f'\n| {name} | trials | median | worst | best |\n|---|---|---|---|---|\n']
    for label, values in _levels(trials, name, space[name]):
      ends = sorted(values, key=lambda x: sign * x)
      cells = (label, len(values), *(f'{x:.4g}' for x in (statistics.median(values), ends[-1], ends[0])))
      lines.append('| ' + ' | '.join(map(str, cells)) + ' |\n')
  (workdir / FACTORS).write_text(''.join(lines))


def _levels(trials, name: str, values: Choice | Range):
  """(label, metrics) for each value of a choice, and for the lower, middle and upper third of an interval."""
  if isinstance(values, Choice):
    of = lambda x: [t.value for t in trials if t.params[name] == x]
    return [(x, of(x)) for x in values.values if of(x)]
  ordered = sorted(trials, key=lambda t: t.params[name])
  edges = [round(i * len(ordered) / 3) for i in range(4)]
  thirds = [ordered[a:b] for a, b in itertools.pairwise(edges) if b > a]
  label = lambda part: f'{part[0].params[name]:.3g} to {part[-1].params[name]:.3g}'
  return [(label(part), [t.value for t in part]) for part in thirds]


def _parser() -> Parser:
  parser = Parser(
      prog='rlx sweep', free=('--config.', '--space.', jobs.SLURM),
      description='Runs a config with many values: --space.KEY=0.2,0.28 or 0.0..0.1 or 1e-4..1e-2:log. Any '
      'value that is the same for all is set by --config.KEY=VALUE.',
  )
  parser.add_argument('--config', required=True, metavar='FILE[:ARG]', help='as for rlx')
  parser.add_argument('--workdir', required=True, metavar='DIR', help='of the sweep; trials lie in it')
  parser.add_argument('--trials', type=positive, default=16, help='how many in all')
  parser.add_argument('--jobs', type=positive, default=1, help='how many at a time')
  parser.add_argument('--sampler', choices=('tpe', 'random', 'grid'), default='tpe')
  parser.add_argument('--metric', default='', help='its last value is what counts; default: log.headline')
  parser.add_argument('--minimize', action='store_true', help='less is better')
  parser.add_argument('--seed', type=natural, default=0, help='of the choices')
  parser.add_argument(
      '--cluster', choices=('local', 'slurm', 'here'), default='local',
      help='where trials run: in processes on this machine, as Slurm jobs, or in this process',
  )
  jobs.add_options(parser)
  return parser
