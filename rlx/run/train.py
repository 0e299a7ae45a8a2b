"""The train loop: restore, dispatch, evaluate, log, checkpoint. It knows no algorithm.

A run is bitwise resumable because its state is one pytree, because everything happens at multiples of
`log.steps_per_dispatch` steps, and because what is written for a step is written before the checkpoint of
that step: a resumed run drops the records behind its checkpoint and writes them again, the same.
"""

from collections.abc import Generator, Mapping
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

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.learners import without_rests
from rlx.models.language import LanguageModel
from rlx.models.safetensors import digest_of
from rlx.run import export, report
from rlx.run.build import build
from rlx.run.checkpoint import Checkpoints, environment
from rlx.run.program import POPULATION, over_members
from rlx.run.stages import Examination, Run, Stage, there
from rlx.run.states import abstract_state, begin, hand_over, load_frozen
from rlx.run.writers import LiveLine, MetricsWriter, read_metrics, summarise_population, write_atomically
from rlx.types import Batch, Models, State

MAX_NONFINITE_UPDATES = 20  # skipped in a row before the run is given up
SAMPLES = 'samples/step_{:08d}.jsonl'


class NonFiniteError(RuntimeError):
  """Too many updates in a row were infinite or NaN; the message says where the state was dumped."""


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


def train(config: ConfigDict, workdir: str | Path, *, quiet: bool, command: str) -> Outcome:
  """Runs a config in a working directory, or goes on where the last call there ended.

  Args:
    config: from `config.load`.
    workdir: made if it is not there. Holds everything that the run writes.
    quiet: nothing is printed.
    command: how to start this run again, for the report.
  Returns:
    How it ended.
  Raises:
    ConfigError: the config cannot run, or the directory holds the run of another one.
    NonFiniteError: the gradients stayed infinite or NaN.
  """
  began, run = time.monotonic(), build(config)
  stopping: list = []
  with jax.set_mesh(run.mesh), stop_signals(stopping):
    rows = progress(run, workdir, stopping, quiet=quiet, command=command, began=began)
    while True:
      try:
        next(rows)
      except StopIteration as end:
        return end.value


def progress(
    run: Run, workdir: str | Path, stopping: list, *, quiet: bool, command: str, began: float
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
  Raises:
    ConfigError, NonFiniteError: as `train`.
  """
  check(run)
  workdir = _open_workdir(Path(workdir), run.config)
  _write_shapes(run, workdir)
  with contextlib.ExitStack() as stack:
    line = stack.enter_context(contextlib.closing(LiveLine(sys.stderr, quiet=quiet)))
    checkpoints = stack.enter_context(Checkpoints(workdir / 'checkpoints', keep=run.checkpoint.keep))
    state, position = _restore(run, checkpoints, line)
    resume_step = -1 if state is None else position.step
    writer = stack.enter_context(contextlib.closing(MetricsWriter(workdir, resume_step=resume_step)))
    _note_start(workdir, command, max(resume_step, 0))
    session = _Session(run, workdir, line, checkpoints, writer, stopping, began)
    for stage in run.stages:
      stack.callback(stage.program.close)
    state, position = yield from session.go(state, position)
    checkpoints.wait()
    finished = position.ended and position.stage == len(run.stages) - 1
    models = {**session.frozen(position.stage), **state.models}
    exported = export.export(run, models, position.stage, workdir) if finished else ()
  before, after = _headline(run, workdir, position)
  outcome = Outcome(
      finished=finished,
      step=position.step,
      metric=run.log.headline,
      before=before,
      after=after,
      exported=exported,
      seconds=time.monotonic() - began,
      transcripts_before=_transcripts(run, workdir, position.first_step),
      transcripts_after=_transcripts(run, workdir, position.step),
  )
  if outcome.finished:
    _write_report(run, workdir, command, outcome)
  return outcome


@dataclasses.dataclass(frozen=True)
class Position:
  """Where in the list of stages a state is; saved beside it, because a stage may end early."""

  stage: int = 0  # index
  first_step: int = 0  # train steps taken before this stage
  step: int = 0  # train steps taken
  ended: bool = False  # the stage is over: the next one begins from this state


Pieces = Generator[list[dict[str, float]], None, tuple[State, Position]]


# --- states of a run ----------------------------------------------------------------------------------------


def _restore(run: Run, checkpoints: Checkpoints, line: LiveLine) -> tuple[State | None, Position]:
  """The newest intact state and where it is; (None, the beginning) where nothing was saved."""
  def like(step: int, extra: dict) -> State:
    if 'position' not in extra:
      raise ConfigError(
          f'the checkpoint of step {step} is of an earlier version of rlx, which had other names for models; '
          'finish the run with that version, or begin in another directory'
      )
    return abstract_state(run, extra['position']['stage'])[0]

  restored = checkpoints.restore(like, line.say)
  if restored is None:
    return None, Position()
  state, extra = restored
  position = Position(**extra['position'])
  _check_digests(run.stages[position.stage], extra['frozen'])
  return state, position


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


def restore(run: Run, workdir: str | Path) -> tuple[State, Position]:
  """The newest intact state of a working directory, and where in the run it is.

  Raises:
    ConfigError: there is no checkpoint.
  """
  with Checkpoints(Path(workdir) / 'checkpoints', keep=run.checkpoint.keep) as checkpoints:
    state, position = _restore(run, checkpoints, LiveLine(sys.stderr, quiet=True))
  if state is None:
    raise ConfigError(f'{workdir} holds no checkpoint; one is written every {run.checkpoint.every} steps')
  return state, position


def newest_checkpoint(workdir: str | Path) -> Path:
  """The folder of the newest checkpoint of a working directory, whether it is intact or not.

  Raises:
    ConfigError: there is none.
  """
  steps = [path for path in (Path(workdir) / 'checkpoints').glob('*') if path.name.isdecimal()]
  if not steps:
    raise ConfigError(f'{workdir} holds no checkpoint')
  return max(steps, key=lambda path: int(path.name))


def restore_models(run: Run, workdir: str | Path) -> tuple[Models, Position]:
  """The models of the newest intact state as functions see them, with those that come from files."""
  state, position = restore(run, workdir)
  frozen = load_frozen(run, position.stage, {})
  return run.stages[position.stage].view({**frozen, **state.models}), position


def check(run: Run) -> None:
  """Traces every stage on abstract values, so that a mistake in the last one shows before the first begins.

  Raises:
    ConfigError: a program cannot be built.
  """
  traced = set()
  for index, stage in enumerate(run.stages):
    try:
      state, frozen = abstract_state(run, index)
      kind = (stage, jax.tree.structure(state))
      if kind not in traced:
        trace(stage, state, frozen)
      traced.add(kind)
    except ConfigError:
      raise
    except ValueError as error:
      raise ConfigError(f'stage {stage.name!r}: {error}') from error
    except NameError as error:
      if f'unbound axis name: {POPULATION}' not in str(error):
        raise
      raise ConfigError(
          f'stage {stage.name!r}: members of a population meet here; set population.size to at least 2'
      ) from error
    except KeyError as error:
      raise ConfigError(
          f'stage {stage.name!r} asks for {error}: a model it does not have (add it to trained or slow), or '
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
  writer: MetricsWriter
  stopping: list  # signals received
  began: float
  headline: float | None = None  # of the last evaluation

  def __post_init__(self):
    self.data = {}  # stage -> the arrays of its rollout, on the device
    self._frozen = (None, {})  # index of a stage, and its frozen models
    self._digests = {}  # of their files, as they were when they were read
    self._asks = {}  # (stage, evaluation) -> compiled
    self.rows = []  # metrics of the stage so far, one row a step

  def go(self, state: State | None, position: Position) -> Pieces:
    """Takes all steps that are left, or those until a signal; returns the state and where it is."""
    if state is None:
      self.line.say(f'compiling stage {self.run.stages[0].name!r}')
      state = begin(self.run, 0, {}, 0, self.frozen(0))
      self._record(state, position, [{}])
    while True:
      state, position = yield from self._stage(state, position)
      if not position.ended or position.stage + 1 == len(self.run.stages):
        return state, position
      self.line.say(f'compiling stage {self.run.stages[position.stage + 1].name!r}')
      state, position = self._next_stage(state, position)

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
    while not position.ended and not self.stopping:
      started = time.monotonic()
      state, metrics = stage.program.dispatch(state, data, frozen)
      rows = _rows_of_metrics(jax.device_get(metrics), self.run.population)
      for message in stage.program.hear(rows):
        self.line.say(message)
      seconds = time.monotonic() - started
      self._check_finite(position, rows)
      position = dataclasses.replace(position, step=position.step + len(rows))
      self._record(state, position, rows)
      self._show(position, rows, seconds)
      over = position.step - position.first_step == stage.num_steps
      self.rows += rows
      position = dataclasses.replace(position, ended=over or bool(stage.stop and stage.stop(self.rows)))
      first = position.step - len(rows) + 1
      yield [{'step': at, 'stage': stage.name, **row} for at, row in enumerate(rows, first)]
      if position.step % self.run.checkpoint.every == 0 or position.ended or self.stopping:
        self.checkpoints.save(state, extra=self._extra(position))
    return state, position

  def _rows_so_far(self, position: Position) -> list[dict]:
    """What the metrics of the stage were until now, for its stop rule."""
    if position.step == position.first_step:
      return []
    rows = read_metrics(self.workdir / 'metrics.jsonl')
    here = [row for row in rows if position.first_step < row['step'] <= position.step]
    return [{name: x for name, x in row.items() if name not in ('step', 'stage')} for row in here]

  def _extra(self, position: Position) -> dict:
    """What is saved beside a state."""
    return {'position': dataclasses.asdict(position), 'frozen': self._digests}

  def _record(self, state: State, position: Position, rows: list[dict]) -> None:
    """Writes the metrics of a dispatch and, where they are due, evaluations and samples to read."""
    stage, at_step = self.run.stages[position.stage], position.step
    at_end = at_step - position.first_step == stage.num_steps
    due = [exam for exam in self.run.evals if at_step % exam.every == 0 or at_end]
    transcripts, members = [], {}
    for exam in due:
      if exam.needs <= set(there(stage.own, stage.models)):
        metrics, read, of_members = self._evaluate(exam, position, state)
        rows[-1] |= metrics
        members |= of_members
        transcripts += [{'split': exam.name, **row} for row in read]
    if members:
      self.writer.write_members(at_step, stage.name, members)
    if due:
      self.headline = rows[-1].get(self.run.log.headline)
    if due and self.run.log.samples:
      self.writer.write_samples(at_step, transcripts + self._samples(position, state))
    for i, row in enumerate(rows):
      self.writer.write(at_step - len(rows) + 1 + i, stage.name, row)
    self.writer.flush()

  def _evaluate(
      self, exam: Examination, position: Position, state: State
  ) -> tuple[dict[str, float], list[dict], dict[str, np.ndarray]]:
    """Metrics, those of a population summarised, the transcripts of its first member, and the metrics of
    each member [N]."""
    answer = jax.device_get(self._ask(exam, position)(state.models, state.world, self.frozen(position.stage)))
    named = lambda metrics: {f'eval/{exam.name}/{name}': x for name, x in metrics.items()}
    if self.run.population == 1:
      metrics, transcripts = exam.evaluation.read(answer)
      return named(metrics), transcripts, {}
    member = lambda i: exam.evaluation.read(jax.tree.map(lambda a: a[i], answer))
    metrics, transcripts = zip(*map(member, range(self.run.population)), strict=True)
    together = named({name: np.array([one[name] for one in metrics]) for name in metrics[0]})
    return summarise_population(together), transcripts[0], together

  def _ask(self, exam: Examination, position: Position):
    """An evaluation in a stage, compiled: `(models, world, frozen) -> answer`."""
    stage = self.run.stages[position.stage]
    key = (stage.name, exam.name)
    if key not in self._asks:
      self._asks[key] = make_ask(self.run, stage, exam)
    return self._asks[key]

  def _samples(self, position: Position, state: State) -> list[dict]:
    """Rows of the batch that the next step will learn from."""
    stage = self.run.stages[position.stage]
    rows, extra = stage.program.collect(state, self._data(stage), self.frozen(position.stage))
    several = all(isinstance(value, dict) for value in rows.values())
    batches = {f'train/{name}': batch for name, batch in rows.items()} if several else {'train': rows}
    return [
        {'split': split, **row} for split, batch in batches.items() if {'rewards', 'tokens'} <= set(batch)
        for row in _read_batch(self.run, batch, extra)
    ]

  def _data(self, stage: Stage):
    """The arrays of the stage's rollout, whole on every device."""
    if stage.name not in self.data:
      everywhere = jax.sharding.NamedSharding(self.run.mesh, jax.sharding.PartitionSpec())
      self.data[stage.name] = jax.device_put(stage.rollout.data, everywhere)
    return self.data[stage.name]

  def _show(self, position: Position, rows: list[dict], seconds: float) -> None:
    counted = lambda name, row: sum(x for key, x in row.items() if key == name or key.endswith(f'/{name}'))
    total = lambda name: sum(counted(name, row) for row in rows) * self.run.population
    num_steps = position.first_step + self.run.steps_from(position.stage)
    timing = {
        'time/elapsed_seconds': time.monotonic() - self.began,
        'time/step_seconds': seconds / len(rows),
        'time/tokens_per_second': total('tokens/actions') / seconds,
        'time/env_steps_per_second': total('env/steps') / seconds,
        **self.run.stages[position.stage].program.timings(),
    }
    self.writer.write_timing(position.step, timing)
    self.line.update(
        stage=self.run.stages[position.stage].name,
        step=position.step,
        num_steps=num_steps,
        reward=rows[-1].get('episode/return', rows[-1].get('reward/mean')),
        accuracy=self.headline if self.run.is_text else None,
        tokens_per_second=timing['time/tokens_per_second'],
        env_steps_per_second=timing['time/env_steps_per_second'],
        seconds_left=(num_steps - position.step) * timing['time/step_seconds'],
    )

  def _check_finite(self, position: Position, rows: list[dict]) -> None:
    """Gives up where too many updates in a row were skipped, after saving what it takes to look into it."""
    ending = 'optimizer/nonfinite_updates'
    counts = {name.removesuffix(ending): x for name, x in rows[-1].items() if name.endswith(ending)}
    worst = max(counts, key=counts.get, default='')
    if not counts or counts[worst] < MAX_NONFINITE_UPDATES:
      return
    dumped = self._dump(position)
    whose = f' of learner {worst[:-1]!r}' if worst else ''
    raise NonFiniteError(
        f'{counts[worst]:.0f} updates{whose} in a row were infinite or NaN and were skipped; the state '
        f'before the last {len(rows)} steps (step {position.step}) is in {dumped}: lower the learning rate, '
        'or replay it with JAX_DEBUG_NANS=True'
    )

  def _dump(self, position: Position) -> Path:
    """Saves the state of a position, replayed from the last checkpoint (states are donated)."""
    state, at = _restore(self.run, self.checkpoints, self.line)
    state = begin(self.run, 0, {}, 0, self.frozen(0)) if state is None else state
    if at.ended:
      state, at = self._next_stage(state, at)
    stage = self.run.stages[position.stage]
    for _ in range(at.step, position.step, self.run.log.steps_per_dispatch):
      state, _ = stage.program.dispatch(state, self._data(stage), self.frozen(position.stage))
    with Checkpoints(self.workdir / 'nonfinite', keep=1) as dump:
      dump.save(state, extra=self._extra(position))
    return self.workdir / 'nonfinite'


def make_ask(run: Run, stage: Stage, exam: Examination):
  """An evaluation of the models of a stage, compiled: `(own models, world, frozen) -> answer`.

  Of a population, for each member.
  """
  ask = lambda models, world, frozen: exam.evaluation.ask(stage.view({**frozen, **models}), world)
  return jax.jit(over_members(ask, run.population, (0, 0, None)))


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


def _one_row(metrics: Mapping, population: int) -> dict[str, float]:
  if population > 1:
    return summarise_population(metrics)
  return {name: float(value) for name, value in metrics.items()}


def _rows_of_metrics(metrics: Mapping, population: int) -> list[dict[str, float]]:
  """A row a step, from metrics [steps] or [members, steps]."""
  num_steps = next(iter(metrics.values())).shape[-1]
  rows = [{name: x[..., i] for name, x in metrics.items()} for i in range(num_steps)]
  return [_one_row(without_rests(row), population) for row in rows]


def _read_batch(run: Run, batch: Batch, extra: Mapping[str, list]) -> list[dict]:
  """Rows of a batch as text: prompt, completion, reward, advantage, every column named `area/what`, and what
  reward functions logged for the row."""
  batch = jax.tree.map(np.asarray, batch)
  rows = []
  for i, length in enumerate(batch['prompt_lengths']):
    tokens, valid, mask = (batch[name][i] for name in ('tokens', 'valid', 'action_mask'))
    row = {
        'prompt': run.task.decode(tokens[:length]),
        'completion': run.task.decode(tokens[length:][valid[length:]]),
        'reward': float(batch['rewards'][i]),
        'advantage': float(batch['advantages'][i][mask][0]) if 'advantages' in batch and mask.any() else 0.0,
    }
    row |= {name: float(x[i]) for name, x in batch.items() if '/' in name}
    rows.append(row | {name: values[i] for name, values in extra.items()})
  return rows


# --- the working directory ----------------------------------------------------------------------------------


def _open_workdir(workdir: Path, config: ConfigDict) -> Path:
  """Makes the directory and writes `config.json`, or checks that it holds the run of this config."""
  workdir.mkdir(parents=True, exist_ok=True)
  path = workdir / 'config.json'
  now = json.loads(config.to_json())
  if path.exists():
    changed = configs.differences(json.loads(path.read_text()), now)
    if changed:
      raise ConfigError(
          f'--workdir={workdir} holds a run of another config ({"; ".join(changed[:5])}'
          f'{", ..." if len(changed) > 5 else ""}); choose another directory, or delete this one'
      )
    return workdir
  write_atomically(path, (json.dumps(now, indent=2, sort_keys=True) + '\n').encode())
  return workdir


def _write_shapes(run: Run, workdir: Path) -> None:
  """`models.json`: the whole shape of each language model, of which a config says what matters."""
  functions = {name: one.model.functions for name, one in run.stages[-1].models.items()}
  decoders = {name: f for name, f in functions.items() if isinstance(f, LanguageModel)}
  shapes = {name: dataclasses.asdict(decoder.shape) for name, decoder in decoders.items()}
  if shapes:
    write_atomically(workdir / 'models.json', (json.dumps(shapes, indent=2) + '\n').encode())


def _note_start(workdir: Path, command: str, at_step: int) -> None:
  """Adds how and with which versions the run was started, or went on, to `starts.jsonl`."""
  with (workdir / 'starts.jsonl').open('a') as file:
    file.write(json.dumps({'step': at_step, 'command': command, **environment()}) + '\n')


def _transcripts(run: Run, workdir: Path, at_step: int) -> list[dict]:
  """Those of the evaluation that the run is read by."""
  path = workdir / SAMPLES.format(at_step)
  if not path.exists():
    return []
  rows = map(json.loads, path.read_text().splitlines())
  return [row for row in rows if row['split'] == run.log.headline.split('/')[1]]


def _headline(run: Run, workdir: Path, position: Position) -> tuple[float | None, float | None]:
  """The metric that the run is read by, at the start of the stage (or its first train step), and now."""
  path, metric = workdir / 'metrics.jsonl', run.log.headline
  rows = read_metrics(path) if path.exists() else []
  at = {row['step']: row[metric] for row in rows if metric in row}
  first = position.first_step + (not metric.startswith('eval/'))
  return at.get(first), at[max(at)] if at else None


def _write_report(run: Run, workdir: Path, command: str, outcome: Outcome) -> None:
  report.write_report(
      workdir,
      title=f'{run.stages[-1].name} on {run.config.task.name if run.is_text else run.config.env.name}',
      before=outcome.transcripts_before,
      after=outcome.transcripts_after,
      config=json.loads((workdir / 'config.json').read_text()),
      environment={'command': command, **environment()},
      summary={
          report.called(outcome.metric): (outcome.before, outcome.after),
          'train steps': outcome.step,
      },
      headline=outcome.metric,
  )
