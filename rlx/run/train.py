"""The train loop: restore, dispatch, evaluate, log, checkpoint. It knows no algorithm.

A run is bitwise resumable because its state is one pytree, because everything happens at multiples of
`log.steps_per_dispatch` steps, and because what is written for a step is written before the checkpoint of
that step: a resumed run drops the records behind its checkpoint and writes them again, the same.
"""

from collections.abc import Mapping
import contextlib
import dataclasses
import functools
import json
from pathlib import Path
import signal
import sys
import time

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import numpy as np

from rlx import config as configs
from rlx import sharding, step
from rlx.config import Run, Stage
from rlx.errors import ConfigError
from rlx.run import export, report
from rlx.run.checkpoint import Checkpoints, environment
from rlx.run.writers import LiveLine, MetricsWriter, read_metrics, summarise_population, write_atomically
from rlx.types import Batch, Key, Models, State

MAX_NONFINITE_UPDATES = 20  # skipped in a row before the run is given up
SAMPLES = 'samples/step_{:08d}.jsonl'
# By which an evaluation is read, and what it is called: the first that there is.
HEADLINES = {
    'eval/accuracy': 'held-out accuracy', 'eval/return': 'return of an episode', 'eval/nll': 'held-out loss',
}


class NonFiniteError(RuntimeError):
  """Too many updates in a row were infinite or NaN; the message says where the state was dumped."""


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a call of `train` ended."""

  finished: bool  # False: stopped by a signal, the same command goes on
  step: int
  metric: str  # by which an evaluation is read; the first of `HEADLINES` that it has
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
  began = time.monotonic()
  run = configs.build(config)
  with jax.set_mesh(run.mesh):
    check(run)
  workdir = _open_workdir(Path(workdir), config)
  with contextlib.ExitStack() as stack:
    stack.enter_context(jax.set_mesh(run.mesh))
    line = stack.enter_context(contextlib.closing(LiveLine(sys.stderr, quiet=quiet)))
    checkpoints = stack.enter_context(Checkpoints(workdir / 'checkpoints', keep=run.checkpoint.keep))
    stopping = stack.enter_context(_stop_signals())
    state, position = _restore(run, checkpoints, line)
    resume_step = -1 if state is None else position.step
    writer = stack.enter_context(contextlib.closing(MetricsWriter(workdir, resume_step=resume_step)))
    _note_start(workdir, command, max(resume_step, 0))
    session = _Session(run, workdir, line, checkpoints, writer, stopping, began)
    for stage in run.stages:
      if stage.host_reward is not None:
        stack.callback(stage.host_reward.close)
    state, position = session.go(state, position)
    checkpoints.wait()
    finished = position.ended and position.stage == len(run.stages) - 1
    exported = export.export(run, state, position.stage, workdir) if finished else ()
  metric, before, after = _headline(workdir, position)
  outcome = Outcome(
      finished=finished,
      step=position.step,
      metric=metric,
      before=before,
      after=after,
      exported=exported,
      seconds=time.monotonic() - began,
      transcripts_before=_transcripts(workdir, position.first_step),
      transcripts_after=_transcripts(workdir, position.step),
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


# --- states of a run ----------------------------------------------------------------------------------------


def begin(run: Run, index: int, models: Models, at_step: int) -> State:
  """The state at the start of a stage, made directly in its shards; stacked for a population.

  Args:
    run: from `config.build`.
    index: of the stage.
    models: that the stage before hands on; empty for the first.
    at_step: train steps taken so far.
  """
  stage = run.stages[index]
  loaded = stage.load(models, run.mesh)
  if run.population > 1:
    loaded = jax.tree.map(lambda a: jnp.broadcast_to(a, (run.population, *a.shape)), loaded)
  make = functools.partial(_begin, stage, tuple(loaded))
  arguments = ({**models, **loaded}, *_seeds(run, at_step))
  make = make if run.population == 1 else jax.vmap(make)
  places = sharding.shardings(jax.eval_shape(make, *arguments), run.mesh)
  state = jax.jit(make, out_shardings=places)(*arguments)
  insert = lambda names, models: {**models, **{name: loaded[name] for name in names if name in loaded}}
  return state.replace(params=insert(stage.params, state.params), slow=insert(stage.slow, state.slow))


def _seeds(run: Run, at_step: int):
  """The seed and the step of each member of the population."""
  seeds = run.config.seed + np.arange(run.population, dtype=np.uint32)
  if run.population == 1:
    return seeds[0], jnp.int32(at_step)
  return seeds, jnp.full(run.population, at_step, jnp.int32)


def _begin(stage: Stage, omitted: tuple, models: Models, seed: Key, at_step: jax.Array) -> State:
  """`stage.enter` without the models that are put in from outside, so that they are not copied."""
  init_key, run_key = jax.random.split(jax.random.key(seed))
  state = stage.enter(models, init_key, run_key, at_step)
  without = lambda models: {name: tree for name, tree in models.items() if name not in omitted}
  return state.replace(params=without(state.params), slow=without(state.slow))


def abstract_state(run: Run, stage: int) -> State:
  """Shapes, dtypes and shardings of the state during a stage; nothing is computed."""
  models, state = {}, None
  for index in range(stage + 1):
    make = functools.partial(_begin, run.stages[index], ())
    make = make if run.population == 1 else jax.vmap(make)
    state = jax.eval_shape(make, models, *_seeds(run, 0))
    models = state.models
  place = lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)
  return jax.tree.map(place, state, sharding.shardings(state, run.mesh))


def _restore(run: Run, checkpoints: Checkpoints, line: LiveLine) -> tuple[State | None, Position]:
  """The newest intact state and where it is; (None, the beginning) where nothing was saved."""
  like = lambda step, extra: abstract_state(run, extra['stage'])
  restored = checkpoints.restore(like, line.say)
  return (None, Position()) if restored is None else (restored[0], Position(**restored[1]))


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


def check(run: Run) -> None:
  """Traces every stage on abstract values, so that a mistake in the last one shows before the first begins.

  Raises:
    ConfigError: a program cannot be built.
  """
  for index, stage in enumerate(run.stages):
    try:
      trace(run, stage, abstract_state(run, index))
    except ConfigError:
      raise
    except ValueError as error:
      raise ConfigError(f'stage {stage.name!r}: {error}') from error
    except KeyError as error:
      raise ConfigError(
          f'stage {stage.name!r} asks for {error}: a model it does not have (add it to config.params or '
          'config.slow), or a column that no slot before it has written'
      ) from error


def trace(run: Run, stage: Stage, state: State) -> list:
  """The programs of a stage, traced on an abstract state: one, or the two halves around a Python reward."""
  data = jax.eval_shape(lambda: stage.rollout.data)
  if stage.host_reward is None:
    return [make_dispatch(run, stage).trace(state, data)]
  sample = stage.train_step.sample.trace(state, data)
  batch, world = jax.eval_shape(stage.train_step.sample, state, data)
  with stage.host_reward.only_shapes():
    batch = jax.eval_shape(stage.algorithm.reward, state.models, batch, state.key)
  return [sample, stage.train_step.learn.trace(state.replace(world=world), batch)]


@functools.lru_cache(maxsize=16)
def make_dispatch(run: Run, stage: Stage):
  """`(state, data) -> (state, metrics [..., steps])`: `steps_per_dispatch` train steps, as one program where
  the reward is not Python."""
  num_steps = run.log.steps_per_dispatch
  if stage.host_reward is not None:
    overlap = stage.host_reward.overlap
    return lambda state, data: stage.train_step.repeat(state, data, num_steps, overlap=overlap)
  program = step.repeat(stage.train_step, num_steps)
  return jax.jit(jax.vmap(program, (0, None)) if run.population > 1 else program, donate_argnums=0)


@functools.lru_cache(maxsize=16)
def _make_collect(run: Run, stage: Stage):
  """`step.collect` of a stage, compiled where the reward is not Python: a few rows for people to read."""
  few = lambda batch: jax.tree.map(lambda a: a[: run.log.samples], batch)
  if stage.host_reward is None:
    return jax.jit(lambda state, data: few(step.collect(stage.algorithm, state, data)))
  return lambda state, data: few(stage.train_step.collect(state, data))


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
  accuracy: float | None = None  # of the last evaluation

  def __post_init__(self):
    ask = self.run.evaluation.ask
    self.ask = jax.jit(jax.vmap(ask) if self.run.population > 1 else ask)
    self.data = {}  # stage -> the arrays of its rollout, on the device

  def go(self, state: State | None, position: Position) -> tuple[State, Position]:
    """Takes all steps that are left, or those until a signal; returns the state and where it is."""
    if state is None:
      self.line.say(f'compiling stage {self.run.stages[0].name!r}')
      state = begin(self.run, 0, {}, 0)
      self._record(state, position, [{}])
    while True:
      state, position = self._stage(state, position)
      if not position.ended or position.stage + 1 == len(self.run.stages):
        return state, position
      self.line.say(f'compiling stage {self.run.stages[position.stage + 1].name!r}')
      state, position = _next_stage(self.run, state, position)

  def _stage(self, state: State, position: Position) -> tuple[State, Position]:
    """Dispatches until the stage is over or a signal comes."""
    stage = self.run.stages[position.stage]
    dispatch, data = make_dispatch(self.run, stage), self._data(stage)
    while not position.ended and not self.stopping:
      started = time.monotonic()
      state, metrics = dispatch(state, data)
      rows = _rows_of_metrics(jax.device_get(metrics), self.run.population)
      self._hear(stage, rows)
      seconds = time.monotonic() - started
      self._check_finite(position, rows)
      position = dataclasses.replace(position, step=position.step + len(rows))
      self._record(state, position, rows)
      self._show(position, rows, seconds)
      over = position.step - position.first_step == stage.num_steps
      position = dataclasses.replace(position, ended=over or bool(stage.stop and stage.stop.met(rows[-1])))
      if position.step % self.run.checkpoint.every == 0 or position.ended or self.stopping:
        self.checkpoints.save(state, extra=dataclasses.asdict(position))
    return state, position

  def _record(self, state: State, position: Position, rows: list[dict]) -> None:
    """Writes the metrics of a dispatch and, where it is due, an evaluation and samples to read."""
    stage, at_step = self.run.stages[position.stage], position.step
    if at_step % self.run.eval_every == 0 or at_step - position.first_step == stage.num_steps:
      metrics, transcripts, members = self._evaluate(stage.policy(state.models))
      if members:
        self.writer.write_members(at_step, stage.name, members)
      rows[-1] |= metrics
      self.accuracy = rows[-1].get('eval/accuracy')
      if self.run.log.samples:
        self.writer.write_samples(at_step, self._samples(stage, state, transcripts))
    for i, row in enumerate(rows):
      self.writer.write(at_step - len(rows) + 1 + i, stage.name, row)
    self.writer.flush()

  def _evaluate(self, policy) -> tuple[dict[str, float], list[dict], dict[str, np.ndarray]]:
    """Metrics, those of a population summarised, the transcripts of its first member, and the metrics of
    each member [N]."""
    answer = jax.device_get(self.ask(policy))
    if self.run.population == 1:
      return *self.run.evaluation.read(answer), {}
    member = lambda i: self.run.evaluation.read(jax.tree.map(lambda a: a[i], answer))
    metrics, transcripts = zip(*map(member, range(self.run.population)), strict=True)
    together = {name: np.array([one[name] for one in metrics]) for name in metrics[0]}
    return summarise_population(together), transcripts[0], together

  def _samples(self, stage: Stage, state: State, transcripts: list[dict]) -> list[dict]:
    """Held-out transcripts, then rows of the batch that the next step will learn from."""
    one = lambda tree: jax.tree.map(lambda a: a[0], tree) if self.run.population > 1 else tree
    rows = [{'split': 'held_out', **row} for row in transcripts]
    batch = _make_collect(self.run, stage)(one(state), self._data(stage))
    if 'rewards' in batch:
      extra = {}
      if stage.host_reward is not None:
        extra = stage.host_reward.heard()[-1].extra
      rows += [{'split': 'train', **row} for row in _read_batch(self.run, batch, extra)]
    return rows

  def _data(self, stage: Stage):
    """The arrays of the stage's rollout, whole on every device."""
    if stage.name not in self.data:
      everywhere = jax.sharding.NamedSharding(self.run.mesh, jax.sharding.PartitionSpec())
      self.data[stage.name] = jax.device_put(stage.rollout.data, everywhere)
    return self.data[stage.name]

  def _hear(self, stage: Stage, rows: list[dict]) -> None:
    """Adds what reward functions logged to the metrics of the steps, and says aloud what failed."""
    if stage.host_reward is None:
      return
    for row, scores in zip(rows, stage.host_reward.heard(), strict=True):
      row.update({f'reward/{name}': float(value) for name, value in scores.metrics.items()})
      for message in scores.messages:
        self.line.say(f'reward function failed: {message}')

  def _show(self, position: Position, rows: list[dict], seconds: float) -> None:
    total = lambda name: sum(row.get(name, 0.0) for row in rows) * self.run.population
    num_steps = position.first_step + self.run.steps_from(position.stage)
    timing = {
        'time/elapsed_seconds': time.monotonic() - self.began,
        'time/step_seconds': seconds / len(rows),
        'time/tokens_per_second': total('tokens/actions') / seconds,
        'time/env_steps_per_second': total('env/steps') / seconds,
    }
    self.writer.write_timing(position.step, timing)
    self.line.update(
        stage=self.run.stages[position.stage].name,
        step=position.step,
        num_steps=num_steps,
        reward=rows[-1].get('episode/return', rows[-1].get('reward/mean')),
        accuracy=self.accuracy,
        tokens_per_second=timing['time/tokens_per_second'],
        env_steps_per_second=timing['time/env_steps_per_second'],
        seconds_left=(num_steps - position.step) * timing['time/step_seconds'],
    )

  def _check_finite(self, position: Position, rows: list[dict]) -> None:
    """Gives up where too many updates in a row were skipped, after saving what it takes to look into it."""
    skipped = rows[-1].get('optimizer/nonfinite_updates', 0)
    if skipped < MAX_NONFINITE_UPDATES:
      return
    dumped = self._dump(position)
    raise NonFiniteError(
        f'{skipped:.0f} updates in a row were infinite or NaN and were skipped; the state before the last '
        f'{len(rows)} steps (step {position.step}) is in {dumped}: lower optimizer.learning_rate, or replay '
        'it with JAX_DEBUG_NANS=True'
    )

  def _dump(self, position: Position) -> Path:
    """Saves the state of a position, replayed from the last checkpoint (states are donated)."""
    state, at = _restore(self.run, self.checkpoints, self.line)
    state = begin(self.run, 0, {}, 0) if state is None else state
    if at.ended:
      state, at = _next_stage(self.run, state, at)
    stage = self.run.stages[position.stage]
    dispatch = make_dispatch(self.run, stage)
    for _ in range(at.step, position.step, self.run.log.steps_per_dispatch):
      state, _ = dispatch(state, self._data(stage))
    with Checkpoints(self.workdir / 'nonfinite', keep=1) as dump:
      dump.save(state, extra=dataclasses.asdict(position))
    return self.workdir / 'nonfinite'


def _next_stage(run: Run, state: State, position: Position) -> tuple[State, Position]:
  """The beginning of the stage after the one that has ended."""
  position = Position(stage=position.stage + 1, first_step=position.step, step=position.step)
  return begin(run, position.stage, state.models, position.step), position


@contextlib.contextmanager
def _stop_signals():
  """A list that fills with SIGINT and SIGTERM; a second Ctrl-C interrupts at once."""
  received = []

  def note(number, frame):
    del frame
    received.append(number)
    if number == signal.SIGINT:
      signal.signal(signal.SIGINT, signal.default_int_handler)

  old = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
  try:
    yield received
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
  return [_one_row({k: v[..., i] for k, v in metrics.items()}, population) for i in range(num_steps)]


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
        'advantage': float(batch['advantages'][i][mask][0]) if mask.any() else 0.0,
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


def _note_start(workdir: Path, command: str, at_step: int) -> None:
  """Adds how and with which versions the run was started, or went on, to `starts.jsonl`."""
  with (workdir / 'starts.jsonl').open('a') as file:
    file.write(json.dumps({'step': at_step, 'command': command, **environment()}) + '\n')


def _transcripts(workdir: Path, at_step: int) -> list[dict]:
  path = workdir / SAMPLES.format(at_step)
  if not path.exists():
    return []
  rows = map(json.loads, path.read_text().splitlines())
  return [row for row in rows if row['split'] == 'held_out']


def _headline(workdir: Path, position: Position) -> tuple[str, float | None, float | None]:
  """The metric that evaluations are read by, its value at the start of the stage, and now."""
  path = workdir / 'metrics.jsonl'
  rows = read_metrics(path) if path.exists() else []
  for metric in HEADLINES:
    at = {row['step']: row[metric] for row in rows if metric in row}
    if at:
      return metric, at.get(position.first_step), at[max(at)]
  return 'eval/accuracy', None, None


def _write_report(run: Run, workdir: Path, command: str, outcome: Outcome) -> None:
  report.write_report(
      workdir,
      title=f'{run.stages[-1].name} on {run.config.env.name if run.model is None else run.config.data.name}',
      before=outcome.transcripts_before,
      after=outcome.transcripts_after,
      config=json.loads((workdir / 'config.json').read_text()),
      environment={'command': command, **environment()},
      summary={
          HEADLINES[outcome.metric]: (outcome.before, outcome.after),
          'train steps': outcome.step,
      },
  )
