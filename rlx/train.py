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
from rlx import report, sharding, step
from rlx.checkpoint import Checkpoints, environment
from rlx.config import ConfigError, Run, Stage
from rlx.evaluate import read_transcripts
from rlx.types import Batch, Key, Models, State
from rlx.writers import LiveLine, MetricsWriter, read_metrics, summarise_population, write_atomically

MAX_NONFINITE_UPDATES = 20  # skipped in a row before the run is given up
SAMPLES = 'samples/step_{:08d}.jsonl'


class NonFiniteError(RuntimeError):
  """Too many updates in a row were infinite or NaN; the message says where the state was dumped."""


@dataclasses.dataclass(frozen=True)
class Outcome:
  """How a call of `train` ended."""

  finished: bool  # False: stopped by a signal, the same command goes on
  step: int
  before: float | None  # held-out accuracy at the start of the last stage
  after: float | None
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
    restored = checkpoints.restore(functools.partial(abstract_state_at, run), line.say)
    at_step = 0 if restored is None else _step_of(restored[0])
    resume_step = -1 if restored is None else at_step
    writer = stack.enter_context(contextlib.closing(MetricsWriter(workdir, resume_step=resume_step)))
    session = _Session(run, workdir, line, checkpoints, writer, stopping, began)
    finished, at_step = session.go(None if restored is None else restored[0], at_step)
    checkpoints.wait()
  before, after = _accuracies(run, workdir)
  outcome = Outcome(
      finished=finished, step=at_step, before=before, after=after, seconds=time.monotonic() - began,
      transcripts_before=_transcripts(workdir, run.stages[-1].first_step),
      transcripts_after=_transcripts(workdir, run.num_steps),
  )
  if finished:
    _write_report(run, workdir, command, outcome)
  return outcome


# --- states of a run ----------------------------------------------------------------------------------------


def begin(run: Run, index: int, models: Models, at_step: int) -> State:
  """The state at the start of a stage, made directly in its shards; stacked for a population.

  Args:
    run: from `config.build`.
    index: of the stage.
    models: that the stage before hands on; empty for the first.
    at_step: train steps taken so far.
  """
  make = functools.partial(_begin, run, run.stages[index])
  seeds = run.config.seed + np.arange(run.population, dtype=np.uint32)
  if run.population == 1:
    arguments = (models, seeds[0], jnp.int32(at_step))
  else:
    make = jax.vmap(make)
    arguments = (models, seeds, jnp.full(run.population, at_step, jnp.int32))
  places = sharding.shardings(jax.eval_shape(make, *arguments), run.mesh)
  return jax.jit(make, out_shardings=places)(*arguments)


def _begin(run: Run, stage: Stage, models: Models, seed: Key, at_step: jax.Array) -> State:
  init_key, run_key = jax.random.split(jax.random.key(seed))
  return stage.enter(models, init_key, run_key, at_step)


def abstract_state_at(run: Run, at_step: int) -> State:
  """Shapes, dtypes and shardings of the state after `at_step` steps; nothing is computed."""
  models, state = {}, None
  for index in range(_stage_at(run, at_step) + 1):
    state = jax.eval_shape(lambda m, index=index: begin(run, index, m, 0), models)
    models = state.models
  place = lambda leaf, where: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=where)
  return jax.tree.map(place, state, sharding.shardings(state, run.mesh))


def _stage_at(run: Run, at_step: int) -> int:
  """Index of the stage that the state after `at_step` steps belongs to: the one that took the last step."""
  return next(i for i, stage in enumerate(run.stages) if at_step <= stage.last_step)


def _step_of(state: State) -> int:
  return int(np.max(np.asarray(state.step)))


def check(run: Run) -> None:
  """Traces every stage on abstract values, so that a mistake in the last one shows before the first begins.

  Raises:
    ConfigError: a program cannot be built.
  """
  for stage in run.stages:
    try:
      make_dispatch(run, stage).trace(abstract_state_at(run, stage.last_step))
    except ConfigError:
      raise
    except ValueError as error:
      raise ConfigError(f'stage {stage.name!r}: {error}') from error
    except KeyError as error:
      raise ConfigError(
          f'stage {stage.name!r} asks for {error}: a model it does not have (add it to config.params or '
          'config.slow), or a column that no slot before it has written'
      ) from error


@functools.lru_cache(maxsize=16)
def make_dispatch(run: Run, stage: Stage):
  """The compiled program of a stage: `steps_per_dispatch` train steps; metrics [..., steps]."""
  program = step.repeat(stage.train_step, run.log.steps_per_dispatch)
  return jax.jit(jax.vmap(program) if run.population > 1 else program, donate_argnums=0)


@functools.lru_cache(maxsize=16)
def _make_collect(run: Run, stage: Stage):
  """The compiled `step.collect` of a stage: a few rows of it, for people to read."""
  few = lambda batch: jax.tree.map(lambda a: a[: run.log.samples], batch)
  return jax.jit(lambda state: few(step.collect(stage.algorithm, state)))


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
  accuracy: float | None = None
  reward: float | None = None

  def __post_init__(self):
    evaluate = jax.vmap(self.run.evaluate) if self.run.population > 1 else self.run.evaluate
    self.evaluate = jax.jit(evaluate)

  def go(self, state: State | None, at_step: int) -> tuple[bool, int]:
    """Takes all steps that are left; (True, last step), or (False, step) where a signal ended it."""
    first = _stage_at(self.run, at_step)
    if state is None:
      self.line.say(f'compiling stage {self.run.stages[0].name!r}')
      state = begin(self.run, 0, {}, 0)
      self._record(self.run.stages[0], state, 0, [{}])
    for index in range(first, len(self.run.stages)):
      stage = self.run.stages[index]
      if at_step == stage.first_step and index > 0:
        self.line.say(f'compiling stage {stage.name!r}')
        state = begin(self.run, index, state.models, at_step)
      state, at_step = self._stage(stage, state, at_step)
      if at_step < stage.last_step:
        return False, at_step
    return True, at_step

  def _stage(self, stage: Stage, state: State, at_step: int) -> tuple[State, int]:
    dispatch = make_dispatch(self.run, stage)
    while at_step < stage.last_step and not self.stopping:
      started = time.monotonic()
      state, metrics = dispatch(state)
      rows = _rows_of_metrics(jax.device_get(metrics), self.run.population)
      seconds = time.monotonic() - started
      at_step += len(rows)
      self._check_finite(stage, rows, at_step)
      self._record(stage, state, at_step, rows)
      self._show(stage, rows, at_step, seconds)
      if at_step % self.run.checkpoint.every == 0 or at_step == stage.last_step or self.stopping:
        self.checkpoints.save(state, extra={'stage': stage.name})
    return state, at_step

  def _record(self, stage: Stage, state: State, at_step: int, rows: list[dict]) -> None:
    """Writes the metrics of a dispatch and, where it is due, an evaluation and samples to read."""
    if at_step % self.run.eval_every == 0 or at_step == stage.last_step:
      metrics, transcripts = jax.device_get(self.evaluate(state.models['policy']))
      rows[-1] |= _one_row(metrics, self.run.population)
      self.accuracy = rows[-1]['eval/accuracy']
      self.writer.write_samples(at_step, self._samples(stage, state, transcripts))
    for i, row in enumerate(rows):
      self.writer.write(at_step - len(rows) + 1 + i, stage.name, row)
    self.writer.flush()

  def _samples(self, stage: Stage, state: State, transcripts: Batch) -> list[dict]:
    """Held-out transcripts, then rows of the batch that the next step will learn from."""
    one = lambda tree: jax.tree.map(lambda a: a[0], tree) if self.run.population > 1 else tree
    held_out = read_transcripts(self.run.task, one(transcripts))
    rows = [{'split': 'held_out', **row} for row in held_out]
    batch = _make_collect(self.run, stage)(one(state))
    if 'rewards' in batch:
      rows += [{'split': 'train', **row} for row in _read_batch(self.run, batch)]
    return rows

  def _show(self, stage: Stage, rows: list[dict], at_step: int, seconds: float) -> None:
    tokens = sum(row.get('tokens/actions', 0.0) for row in rows) * self.run.population
    self.reward = rows[-1].get('reward/mean')
    left = (self.run.num_steps - at_step) * seconds / len(rows)
    timing = {
        'time/elapsed_seconds': time.monotonic() - self.began,
        'time/step_seconds': seconds / len(rows),
        'time/tokens_per_second': tokens / seconds,
    }
    self.writer.write_timing(at_step, timing)
    self.line.update(
        stage=stage.name, step=at_step, num_steps=self.run.num_steps, reward=self.reward,
        accuracy=self.accuracy, tokens_per_second=tokens / seconds, seconds_left=left,
    )

  def _check_finite(self, stage: Stage, rows: list[dict], at_step: int) -> None:
    skipped = rows[-1].get('optimizer/nonfinite_updates', 0)
    if skipped < MAX_NONFINITE_UPDATES:
      return
    dumped = self._dump(stage, at_step - len(rows))
    raise NonFiniteError(
        f'{skipped:.0f} updates in a row up to step {at_step} were infinite or NaN and were skipped; the '
        f'state before the last {len(rows)} steps is in {dumped}: lower optimizer.learning_rate, or replay '
        'it with JAX_DEBUG_NANS=True'
    )

  def _dump(self, stage: Stage, at_step: int) -> Path:
    """Saves the state after `at_step` steps, replayed from the last checkpoint (states are donated)."""
    self.checkpoints.wait()
    restored = self.checkpoints.restore(functools.partial(abstract_state_at, self.run), self.line.say)
    state = begin(self.run, 0, {}, 0) if restored is None else restored[0]
    if _step_of(state) == stage.first_step and stage is not self.run.stages[0]:
      state = begin(self.run, self.run.stages.index(stage), state.models, stage.first_step)
    dispatch = make_dispatch(self.run, stage)
    while _step_of(state) < at_step:
      state, _ = dispatch(state)
    with Checkpoints(self.workdir / 'nonfinite', keep=1) as dump:
      dump.save(state, extra={'stage': stage.name})
    return self.workdir / 'nonfinite'


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


def _read_batch(run: Run, batch: Batch) -> list[dict]:
  """Rows of a batch as text: prompt, completion, reward, advantage and every column named `area/what`."""
  batch = jax.tree.map(np.asarray, batch)
  rows = []
  for i, length in enumerate(batch['prompt_lengths']):
    tokens, mask = batch['tokens'][i], batch['action_mask'][i]
    row = {
        'prompt': run.task.decode(tokens[:length]),
        'completion': run.task.decode(tokens[mask]),
        'reward': float(batch['rewards'][i]),
        'advantage': float(batch['advantages'][i][mask][0]) if mask.any() else 0.0,
    }
    rows.append(row | {name: float(x[i]) for name, x in batch.items() if '/' in name})
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


def _transcripts(workdir: Path, at_step: int) -> list[dict]:
  path = workdir / SAMPLES.format(at_step)
  if not path.exists():
    return []
  rows = map(json.loads, path.read_text().splitlines())
  return [row for row in rows if row['split'] == 'held_out']


def _accuracies(run: Run, workdir: Path) -> tuple[float | None, float | None]:
  """Held-out accuracy at the start of the last stage, and now."""
  path = workdir / 'metrics.jsonl'
  rows = read_metrics(path) if path.exists() else []
  at = {row['step']: row['eval/accuracy'] for row in rows if 'eval/accuracy' in row}
  return at.get(run.stages[-1].first_step), at[max(at)] if at else None


def _write_report(run: Run, workdir: Path, command: str, outcome: Outcome) -> None:
  report.write_report(
      workdir,
      title=f'{run.stages[-1].name} on {run.config.data.name}',
      before=outcome.transcripts_before,
      after=outcome.transcripts_after,
      config=json.loads((workdir / 'config.json').read_text()),
      environment={'command': command, **environment()},
      summary={'held-out accuracy': (outcome.before, outcome.after), 'train steps': run.num_steps},
  )
