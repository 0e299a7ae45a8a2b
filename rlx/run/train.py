"""The train loop: restore, dispatch, evaluate, log, checkpoint. It knows no algorithm.

A run is bitwise resumable because its state is one pytree, because everything happens at multiples of
`log.steps_per_dispatch` steps, and because what is written for a step is written before the checkpoint of
that step: a resumed run drops the records behind its checkpoint and writes them again, the same.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import json
from pathlib import Path
import signal
import sys
import time

import jax
from ml_collections import ConfigDict
import numpy as np

from rlx import processes, watchdog
from rlx.errors import ConfigError
from rlx.models.safetensors import digest_of
from rlx.rollout.calls_record import calls_folder
from rlx.run import checkpoint, examining, export, inputs, learning, nonfinite, report, workdirs
from rlx.run import rows as rows_of
from rlx.run.build import build
from rlx.run.checkpoint import Checkpoints
from rlx.run.nonfinite import NonFiniteError
from rlx.run.pace import Pace, compilation
from rlx.run.program import POPULATION
from rlx.run.stages import Examination, Run, Stage
from rlx.run.states import abstract_state, begin, check_room, gone_on, hand_over, load_frozen
from rlx.run.writers import LiveLine, MetricsWriter, NoWriter, read_metrics
from rlx.types import Models, State

# Sees the step and the metrics of each row, with those of the evaluations behind it; True stops the run.
Hook = Callable[[int, Mapping[str, float]], bool | None]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a call of `train` ended."""

  finished: bool  # False: stopped by a signal, the same command goes on
  step: int
  metric: str  # `log.headline`, by which the run is read
  before: float | None  # its value at the start of the last stage
  after: float | None
  exported: tuple[Path, ...]  # directories that other tools can load
  seconds: float
  transcripts_before: list[dict]  # of held-out problems: prompt, completion, solution, correct
  transcripts_after: list[dict]


def train(
    config: ConfigDict, workdir: str | Path, *, quiet: bool, command: str, hooks: Sequence[Hook] = ()
) -> Outcome:
  """Runs a config in a working directory, or goes on where the last call there ended.

  Args:
    config: from `config.load`. A run can be asked for more steps of its last stage, and goes on to them.
    workdir: made if it is not there. Holds everything that the run writes.
    quiet: nothing is printed.
    command: how to start this run again, for the report.
    hooks: called with every row of metrics that is written. Where one returns True the run stops as on a
      signal: saved, and the same call goes on from there.
  Returns:
    How it ended.
  Raises:
    ConfigError: the config cannot run, or the directory holds the run of another one.
    NonFiniteError: the gradients stayed infinite or NaN.
  """
  began, run = time.monotonic(), build(config)
  stopping: list = []
  with jax.set_mesh(run.mesh), stop_signals(stopping):
    rows = progress(run, workdir, stopping, quiet=quiet, command=command, began=began, hooks=hooks)
    while True:
      try:
        next(rows)
      except StopIteration as end:
        return end.value


def progress(
    run: Run, workdir: str | Path, stopping: list, *, quiet: bool, command: str, began: float,
    hooks: Sequence[Hook] = (),
) -> Generator[list[dict[str, float]], None, Outcome]:
  """`train` in pieces: yields the metrics of each dispatch, a row a step, and returns how it ended.

  Whoever iterates does so under the mesh of the run, and may say `stopping` between two pieces: the state is
  then saved, and nothing more is done. A generator that is dropped saves nothing behind its last checkpoint.

  Args:
    run: from `build`.
    workdir: as for `train`.
    stopping: the run stops and is saved when there is something in it.
    quiet: nothing is printed.
    command: how to start this run again, for the report.
    began: when, by `time.monotonic`.
    hooks: as for `train`.
  Raises:
    ConfigError, NonFiniteError: as `train`.
  """
  check(run)
  workdir = Path(workdir)
  with workdirs.opened(workdir) as touch:
    position, exported = yield from _steps(run, workdir, stopping, touch, quiet, command, began, hooks)
    finished = _is_over(run, position)
    if finished:
      processes.first_says(report.write_report, workdir)
  told = processes.first_says(report.told, workdir)
  return Outcome(
      finished=finished,
      step=position.step,
      metric=told.metric,
      before=told.before,
      after=told.after,
      exported=exported,
      seconds=time.monotonic() - began,
      transcripts_before=told.transcripts_before,
      transcripts_after=told.transcripts_after,
  )


def _steps(
    run: Run, workdir: Path, stopping: list, touch: Callable[[], None], quiet: bool, command: str,
    began: float, hooks: Sequence[Hook],
) -> Generator[list[dict[str, float]], None, tuple['Position', tuple[Path, ...]]]:
  """The steps that are left, in a directory that is held; returns where they end, and what was exported."""
  with contextlib.ExitStack() as stack:
    quiet = quiet or not processes.is_first()
    line = stack.enter_context(contextlib.closing(LiveLine(sys.stderr, quiet=quiet)))
    stack.enter_context(watchdog.watching(run.log.stuck_seconds))
    processes.first_says(export.check, run, workdir)
    with workdirs.usable(workdir):
      if extended := processes.first_says(workdirs.claim, workdir, run.config):
        line.say(extended)
      for sentence in learning.rates_that_end_early(run.config):
        line.say(sentence)
      processes.first_says(workdirs.write_shapes, run, workdir)
      checkpoints = stack.enter_context(Checkpoints(workdir / 'checkpoints', keep=run.checkpoint.keep))
      compiled = stack.enter_context(compilation())
      state, position = _gone_on(run, *_restore(run, checkpoints, line.say), line.say)
      resume_step = -1 if state is None else position.step
      writer = stack.enter_context(contextlib.closing(_writer(run, workdir, resume_step, line)))
      processes.first_says(workdirs.note_start, workdir, command, max(resume_step, 0))
    session = _Session(run, workdir, line, checkpoints, writer, stopping, began, hooks, compiled, touch)
    for stage in run.stages:
      stage.program.keep_in(calls_folder(workdir, stage.name))
      stack.callback(stage.program.close)
    for exam in run.evals:
      stack.callback(exam.close)
    state, position = yield from session.go(state, position)
    checkpoints.wait()
    if not _is_over(run, position):
      return position, ()
    models = {**session.frozen(position.stage), **state.models}
    models = processes.to_host(models) if processes.several() else models
    return position, processes.first_says(export.export, run, models, position.stage, workdir)


def _is_over(run: Run, position: 'Position') -> bool:
  return position.ended and position.stage == len(run.stages) - 1


def _writer(run: Run, workdir: Path, resume_step: int, line: LiveLine) -> MetricsWriter | NoWriter:
  config, writers = json.loads(run.config.to_json()), [NoWriter()]  # of all but the first process
  make = lambda: MetricsWriter(
      workdir, resume_step=resume_step, trackers=run.trackers, config=config, say=line.say
  )
  processes.first_says(lambda: writers.append(make()))
  return writers[-1]


@dataclasses.dataclass(frozen=True)
class Position:
  """Where in the list of stages a state is; saved beside it, because a stage may end early."""

  stage: int = 0  # index
  first_step: int = 0  # train steps taken before this stage
  step: int = 0  # train steps taken
  ended: bool = False  # the stage is over: the next one begins from this state


Pieces = Generator[list[dict[str, float]], None, tuple[State, Position]]


# --- states of a run ----------------------------------------------------------------------------------------


def _restore(run: Run, checkpoints: Checkpoints, say: Callable[[str], None]) -> tuple[State | None, Position]:
  """The newest intact state and where it is; (None, the beginning) where nothing was saved."""
  try:
    restored = checkpoints.restore(_like(run), say)
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(str(error)) from error
  if restored is None:
    return None, Position()
  if 'files' in restored[1]:  # not in checkpoints of earlier versions
    inputs.check(run.config, restored[1]['files'])
  return _placed(run, *restored)


def _like(run: Run):
  """`(step, extra) -> abstract state` of a checkpoint."""

  def like(step: int, extra: dict) -> State:
    if 'position' not in extra:
      raise ConfigError(
          f'the checkpoint of step {step} is of an earlier version of rlx, which had other names for models; '
          'finish the run with that version, or begin in another directory'
      )
    return abstract_state(run, extra['position']['stage'])[0]

  return like


def _placed(run: Run, state: State, extra: dict) -> tuple[State, Position]:
  """A restored state and its position."""
  position = Position(**extra['position'])
  _check_digests(run.stages[position.stage], extra['frozen'])
  return state, position


def _gone_on(run: Run, state: State | None, position: Position, say: Callable[[str], None]):
  """A restored state that can go on, where its rollout keeps what no checkpoint holds; and where it is."""
  if state is None or not run.stages[position.stage].rollout.begins_anew:
    return state, position
  say(
      'environments on the host are in no checkpoint: they begin new episodes here, and the run is not '
      'bitwise what it would have been'
  )
  return gone_on(run, position.stage, state), position


def _digests(stage: Stage) -> dict[str, str]:
  """What the files of the frozen models hold, model -> digest."""
  return {name: digest_of(stage.models[name].model.source) for name in stage.frozen}


def _check_digests(stage: Stage, known: Mapping[str, str]) -> None:
  """Refuses to go on with other files than the run began with: the frozen models are in no checkpoint."""
  for name, digest in _digests(stage).items():
    if known.get(name) != digest:
      raise ConfigError(
          f'{stage.models[name].model.source}: the files of models.{name} are not those that the run began '
          f'with (digest {digest}, then {known.get(name)}); put those back, or begin in another directory'
      )


def restore(
    run: Run, workdir: str | Path, *, step: int | None = None, folder: str = 'checkpoints'
) -> tuple[State, Position]:
  """A saved state of a working directory, and where in the run it is; a run that is at work goes on.

  Args:
    run: from `build`, of the directory's config.
    workdir: whose checkpoints are read; nothing in it is touched.
    step: of the checkpoint; None for the newest intact one.
    folder: of the checkpoints in it.
  Raises:
    ConfigError: there is no such checkpoint, or it does not fit the run.
  """
  say = LiveLine(sys.stderr, quiet=False).say
  try:
    saved = checkpoint.read(Path(workdir) / folder, _like(run), say, step=step)
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(str(error)) from error
  return _placed(run, *saved)


def newest_checkpoint(workdir: str | Path) -> Path:
  """The folder of the newest checkpoint of a working directory, whether it is intact or not.

  Raises:
    ConfigError: there is none.
  """
  steps = [path for path in (Path(workdir) / 'checkpoints').glob('*') if path.name.isdecimal()]
  if not steps:
    raise ConfigError(f'{workdir} holds no checkpoint')
  return max(steps, key=lambda path: int(path.name))


def restore_models(
    run: Run, workdir: str | Path, *, step: int | None = None
) -> tuple[Models, Position]:
  """The models of a saved state as functions see them, with those that come from files; as `restore`."""
  state, position = restore(run, workdir, step=step)
  frozen = load_frozen(run, position.stage, {})
  return run.stages[position.stage].view({**frozen, **state.models}), position


def check(run: Run) -> None:
  """Traces every stage and its evaluations on abstract values, so that a mistake in the last one shows before
  the first begins.

  Raises:
    ConfigError: a program cannot be built, or a stage takes more memory than there is.
  """
  traced = set()
  for index, stage in enumerate(run.stages):
    with explained(stage.name):
      state, frozen = abstract_state(run, index)
      check_room(run, index)
      kind = (stage, jax.tree.structure(state))
      if kind not in traced:
        trace(stage, state, frozen)
        examining.check(run, stage, state, frozen)
      traced.add(kind)


@contextlib.contextmanager
def explained(name: str) -> Iterator[None]:
  """What tracing a stage raises, in one line: a `ConfigError` that names the stage."""
  try:
    yield
  except ConfigError:
    raise
  except ValueError as error:
    raise ConfigError(f'stage {name!r}: {error}') from error
  except OverflowError as error:
    raise ConfigError(f'stage {name!r}: a number is too large to be counted with: {error}') from error
  except NameError as error:
    if f'unbound axis name: {POPULATION}' not in str(error):
      raise
    raise ConfigError(
        f'stage {name!r}: members of a population meet here; set population.size to at least 2'
    ) from error
  except KeyError as error:
    raise ConfigError(
        f'stage {name!r} asks for {error}: a model it does not have (add it to trained or slow), or '
        'a column that no slot before it has written'
    ) from error


def trace(stage: Stage, state: State, frozen: Models) -> list:
  """The programs of a stage, traced on an abstract state."""
  return stage.program.trace(state, jax.eval_shape(lambda: stage.rollout.data), frozen)


# --- the loop -----------------------------------------------------------------------------------------------


@dataclasses.dataclass
class _Session:
  """One call of `train`: the run and where it writes."""

  run: Run
  workdir: Path
  line: LiveLine
  checkpoints: Checkpoints
  writer: MetricsWriter | NoWriter
  stopping: list  # signals received
  began: float
  hooks: Sequence[Hook]
  compiled: Callable[[], float]  # seconds so far
  touch: Callable[[], None]  # shows other machines that the run is at work
  headline: float | None = None  # of the last evaluation

  def __post_init__(self):
    self.data = {}  # stage -> the arrays of its rollout, on the device
    self._frozen = (None, {})  # index of a stage, and its frozen models
    self._digests = {}  # of their files, as they were when they were read
    self._files = inputs.digests(self.run.config)
    self._said_skipped = False
    self.rows = []  # metrics of the stage so far, one row a step
    self.pace = Pace(self.compiled)

  def go(self, state: State | None, position: Position) -> Pieces:
    """Takes all steps that are left, or those until a signal; returns the state and where it is."""
    if state is None:
      self.line.say(f'compiling stage {self.run.stages[0].name!r}')
      state = begin(self.run, 0, {}, 0, self.frozen(0))
      self._record(state, position, [{}])
    position = self._open_again(position)
    while True:
      state, position = yield from self._stage(state, position)
      if not position.ended or position.stage + 1 == len(self.run.stages):
        return state, position
      self.line.say(f'compiling stage {self.run.stages[position.stage + 1].name!r}')
      state, position = self._next_stage(state, position)

  def _open_again(self, position: Position) -> Position:
    """The position, not at its end where the last stage has become longer since."""
    stage = self.run.stages[position.stage]
    is_longer = position.step - position.first_step < stage.num_steps
    if not (position.ended and is_longer and position.stage + 1 == len(self.run.stages)):
      return position
    over = bool(stage.stop and stage.stop(self._rows_so_far(position)))
    return dataclasses.replace(position, ended=over)

  def frozen(self, index: int) -> Models:
    """The frozen models of a stage; those of one stage are kept at a time."""
    if self._frozen[0] != index:
      self._frozen = (index, load_frozen(self.run, index, self._frozen[1]))
      self._digests = _digests(self.run.stages[index])
    return self._frozen[1]

  def _next_stage(self, state: State, position: Position) -> tuple[State, Position]:
    """The beginning of the stage after the one that has ended."""
    position = Position(stage=position.stage + 1, first_step=position.step, step=position.step)
    frozen = self.frozen(position.stage)
    return hand_over(self.run, position.stage, state, position.step, frozen), position

  def _stage(self, state: State, position: Position) -> Pieces:
    """Dispatches until the stage is over or a signal comes; yields the metrics of each dispatch."""
    stage = self.run.stages[position.stage]
    data, frozen = self._data(stage), self.frozen(position.stage)
    self.rows = self._rows_so_far(position)
    self.pace.start()
    stopping = processes.any_says(bool(self.stopping))
    while not position.ended and not stopping:
      started = time.monotonic()
      compiled = self.compiled()
      with watchdog.section('step'):
        state, metrics = stage.program.dispatch(state, data, frozen)
        rows = rows_of.of_metrics(processes.to_host(metrics), self.run.population)
      for message in stage.program.hear(rows):
        self.line.say(message)
      seconds = time.monotonic() - started if self.compiled() == compiled else None
      self._check_finite(position, rows)
      position = dataclasses.replace(position, step=position.step + len(rows))
      self._record(state, position, rows)
      self._show(position, rows, seconds)
      over = position.step - position.first_step == stage.num_steps
      self.rows += rows
      position = dataclasses.replace(position, ended=over or bool(stage.stop and stage.stop(self.rows)))
      first = position.step - len(rows) + 1
      yield [{'step': at, 'stage': stage.name, **row} for at, row in enumerate(rows, first)]
      # While updates are left out nothing new is learnt, and the last good checkpoints are to stay.
      stopping = processes.any_says(bool(self.stopping))
      is_due = position.step % self.run.checkpoint.every == 0 and not nonfinite.skipped(rows[-1])
      if is_due or position.ended or stopping:
        self.checkpoints.save(state, extra=self._extra(position))
    return state, position

  def _rows_so_far(self, position: Position) -> list[dict]:
    """What the metrics of the stage were until now, for its stop rule."""
    if position.step == position.first_step:
      return []
    rows = processes.first_says(read_metrics, self.workdir / 'metrics.jsonl')
    here = [row for row in rows if position.first_step < row['step'] <= position.step]
    return [self._due(row) for row in here]

  def _due(self, row: dict) -> dict:
    """The metrics of a row, but evaluations that were only made because a shorter stage ended there."""
    early = [f'eval/{exam.name}/' for exam in self.run.evals if row['step'] % exam.every]
    return {
        name: x for name, x in row.items()
        if name not in ('step', 'stage') and not name.startswith(tuple(early))
    }

  def _extra(self, position: Position) -> dict:
    """What is saved beside a state."""
    return {'position': dataclasses.asdict(position), 'frozen': self._digests, 'files': self._files}

  def _record(self, state: State, position: Position, rows: list[dict]) -> None:
    """Writes the metrics of a dispatch and, where they are due, evaluations and samples to read."""
    stage, at_step = self.run.stages[position.stage], position.step
    at_end = at_step - position.first_step == stage.num_steps
    is_due = lambda exam: at_step % exam.every == 0 or at_end
    due = any(map(is_due, self.run.evals))
    transcripts, members = [], {}
    for exam in filter(is_due, examining.exams_of(self.run, stage)):
      metrics, read, of_members = self._evaluate(exam, position, state)
      rows[-1] |= metrics
      members |= of_members
      transcripts += [{'split': exam.name, **row} for row in read]
    if members:
      self.writer.write_members(at_step, stage.name, members)
    if due:
      self.headline = rows[-1].get(self.run.log.headline)
    for step, row in enumerate(rows, start=at_step - len(rows) + 1):
      self.writer.write(step, stage.name, row)
      self.stopping.extend(hook for hook in self.hooks if hook(step, row))
    if due and self.run.log.samples:
      self.writer.write_samples(at_step, transcripts + self._samples(position, state))
    self.writer.flush()
    self.touch()

  @watchdog.section('evaluation')
  def _evaluate(
      self, exam: Examination, position: Position, state: State
  ) -> tuple[dict[str, float], list[dict], dict[str, np.ndarray]]:
    """Metrics, those of a population summarised, the transcripts of its first member, and the metrics of
    each member [N]."""
    exam.keep_in(calls_folder(self.workdir, f'eval_{exam.name}_{position.step:08d}'))
    ask = examining.make_ask(self.run, self.run.stages[position.stage], exam)
    answer = ask(state.models, state.world, self.frozen(position.stage))
    return examining.read_answer(self.run, exam, processes.to_host(answer))

  def _samples(self, position: Position, state: State) -> list[dict]:
    """Rows of the batch that the next step will learn from."""
    stage = self.run.stages[position.stage]
    rows, extra = stage.program.collect(state, self._data(stage), self.frozen(position.stage))
    rows = processes.to_host(rows)
    several = all(isinstance(value, dict) for value in rows.values())
    batches = {f'train/{name}': batch for name, batch in rows.items()} if several else {'train': rows}
    return [
        {'split': split, **row} for split, batch in batches.items() if {'rewards', 'tokens'} <= set(batch)
        for row in rows_of.read_batch(self.run, batch, extra, stage.program.seats)
    ]

  def _data(self, stage: Stage):
    """The arrays of the stage's rollout, whole on every device."""
    if stage.name not in self.data:
      everywhere = jax.sharding.NamedSharding(self.run.mesh, jax.sharding.PartitionSpec())
      self.data[stage.name] = processes.put(stage.rollout.data, everywhere)
    return self.data[stage.name]

  def _show(self, position: Position, rows: list[dict], seconds: float | None) -> None:
    """Writes the clock's numbers and the live line; `seconds` of the dispatch, None where it compiled."""
    counted = lambda name, row: sum(x for key, x in row.items() if key == name or key.endswith(f'/{name}'))
    total = lambda name: sum(counted(name, row) for row in rows) * self.run.population
    stage, later = self.run.stages[position.stage], self.run.stages[position.stage + 1 :]
    end = position.first_step + stage.num_steps
    timing = {'time/elapsed_seconds': time.monotonic() - self.began, **stage.program.timings()}
    self.pace.lap(stage.name, len(rows))
    if seconds is not None:
      timing |= {
          'time/step_seconds': seconds / len(rows),
          'time/tokens_per_second': total('tokens/actions') / seconds,
          'time/env_steps_per_second': total('env/steps') / seconds,
      }
    self.writer.write_timing(position.step, timing)
    ahead = [(stage.name, end - position.step), *((one.name, one.num_steps) for one in later)]
    left, then = self.pace.left(ahead)
    told = self.run.is_text and self.headline is not None
    self.line.update(
        stage=stage.name,
        step=position.step,
        num_steps=position.first_step + self.run.steps_from(position.stage),
        reward=rows[-1].get('episode/return', rows[-1].get('reward/mean')),
        headline=(self.run.log.headline, self.headline) if told else None,
        tokens_per_second=timing.get('time/tokens_per_second'),
        env_steps_per_second=timing.get('time/env_steps_per_second'),
        seconds_left=left,
        then=then,
    )

  def _check_finite(self, position: Position, rows: list[dict]) -> None:
    """Gives up where too many updates in a row were skipped, after saving what it takes to look into it."""
    if not self._said_skipped and (said := nonfinite.first_said(rows, position.step + 1)):
      self._said_skipped = True
      self.line.say(said)
    if too_many := nonfinite.worst(rows[-1]):
      dumped = self._dump(position)
      raise NonFiniteError(
          f'{too_many}; the state before the last {len(rows)} steps (step {position.step}) is in {dumped}: '
          f'lower the learning rate, or see where it begins: rlx replay {dumped}'
      )

  def _dump(self, position: Position) -> Path:
    """Saves the state of a position, replayed from the last checkpoint (states are donated)."""
    unsaid = lambda text: None  # nothing is resumed
    state, at = _gone_on(self.run, *_restore(self.run, self.checkpoints, unsaid), unsaid)
    state = begin(self.run, 0, {}, 0, self.frozen(0)) if state is None else state
    if at.ended:
      state, at = self._next_stage(state, at)
    stage = self.run.stages[position.stage]
    for _ in range(at.step, position.step, self.run.log.steps_per_dispatch):
      state, _ = stage.program.dispatch(state, self._data(stage), self.frozen(position.stage))
    with Checkpoints(self.workdir / 'nonfinite', keep=1) as dump:
      dump.save(state, extra=self._extra(position))
    return self.workdir / 'nonfinite'


@contextlib.contextmanager
def stop_signals(received: list):
  """Appends SIGINT and SIGTERM to a list, in the main thread; a second Ctrl-C interrupts at once."""

  def note(number, frame):
    del frame
    received.append(number)
    if number == signal.SIGINT:
      signal.signal(signal.SIGINT, signal.default_int_handler)

  old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
  try:
    yield
  finally:
    for number, handler in old.items():
      signal.signal(number, handler)
