"""What a run is made of once it is built: stages, their models, evaluations, and how each model begins.

A stage holds some of the models of the run: those that it trains and those that lag behind or stay as they
are. It takes over what an earlier stage hands on, and begins the others. Their own parameters are what is
trained, saved and handed on; functions are shown `Stage.view` of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
from pathlib import Path
from typing import Any
import zlib

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict
import optax

from rlx import sharding
from rlx.errors import ConfigError
from rlx.evaluation.evaluation import Evaluation, HostEvaluation
from rlx.models.model import Model
from rlx.run.program import Program
from rlx.run.stop import StopRule
from rlx.run.trackers import Writer
from rlx.step import Step
from rlx.types import Key, Models, State, StatefulRollout


@dataclasses.dataclass(frozen=True, kw_only=True)
class Checkpointing:
  """The `checkpoint` section.

  Attributes:
    every: train steps between checkpoints; a multiple of `log.steps_per_dispatch`.
    keep: how many of the newest are kept.
  """

  every: int
  keep: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Logging:
  """The `log` section.

  Attributes:
    steps_per_dispatch: train steps in one program; divides everything that is counted in steps.
    samples: rows of training samples and held-out transcripts written at each evaluation.
    headline: the metric that the run is read by, `eval/<name>/<metric>`.
    writers: functions of `trackers.py`, by name or as sections, that are told what the files record.
    stuck_seconds: a step, a reward, an evaluation or a checkpoint that takes longer is told, with the stacks
      of all threads (`watchdog.py`); 0 for never.
  """

  steps_per_dispatch: int
  samples: int
  headline: str
  writers: Sequence[str | Mapping[str, Any]]
  stuck_seconds: float = 900.0


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NamedModel:
  """An entry of `config.models`.

  Attributes:
    model: what it has built.
    roles: the models that it asked for, role -> name.
  """

  model: Model
  roles: Mapping[str, str]

  def load(self, name: str, mesh: jax.sharding.Mesh) -> Any:
    """Its parameters from files, in their shards.

    Args:
      name: of the model, for errors.
      mesh: where they are put.
    Raises:
      ConfigError: the files cannot be used.
    """
    try:
      return self.model.load(mesh)
    except ConfigError:
      raise
    except ValueError as error:
      raise ConfigError(f'config.models.{name}: {error}') from error


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Examination:
  """An entry of `config.evals`.

  Attributes:
    name: its metrics are `eval/<name>/..`.
    every: train steps between two; it is also made at the end of a stage.
    evaluation: what is asked.
    needs: models that it asks for; a stage that lacks one is not examined.
  """

  name: str
  every: int
  evaluation: Evaluation
  needs: frozenset[str]

  def keep_in(self, folder: Path) -> None:
    """What has to be remembered on the host is kept in this folder."""
    if isinstance(self.evaluation, HostEvaluation):
      self.evaluation.host.keep_in(folder)

  def close(self) -> None:
    """Ends what runs beside it; the next evaluation starts it again."""
    if isinstance(self.evaluation, HostEvaluation):
      self.evaluation.host.close()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
  """One stage of a run: `num_steps` train steps, or fewer by its stop rule. It may be entered several times.

  Attributes:
    name: for people, and in `metrics.jsonl`.
    num_steps: train steps.
    stop: when it ends early, said by its rows of metrics so far; None for never.
    optimizer: of the trained models.
    rollout: what begins the world and has the data.
    train_step: one step of it.
    program: what is run: so many steps as are dispatched at a time.
    trained: models that learn.
    slow: lagging model -> the model that it begins as a copy of; its own name for one that stays as it is.
    models: every model of the run, by its name.
    learnt: models that an earlier stage trains: they are handed on, and not what their files hold.
    keeps: whether it finds its optimizer and its world again when it is entered again.
    takes: memories of the world that it takes over from the stage before.
  """

  name: str
  num_steps: int
  stop: StopRule | None
  optimizer: optax.GradientTransformation
  rollout: StatefulRollout
  train_step: Step
  program: Program
  trained: tuple[str, ...]
  slow: Mapping[str, str]
  models: Mapping[str, NamedModel]
  learnt: frozenset[str]
  keeps: bool
  takes: tuple[str, ...]

  @property
  def own(self) -> tuple[str, ...]:
    """The models that the stage holds, trained and lagging."""
    return (*self.trained, *self.slow)

  @property
  def frozen(self) -> tuple[str, ...]:
    """Models that come from files and stay as they are: read anew by each process, and in no checkpoint."""
    held = [name for name, source in self.slow.items() if name == source and name not in self.learnt]
    return tuple(name for name in held if self.models[name].model.load)

  @property
  def axes(self) -> dict[str, sharding.Axes]:
    """What the axes of each model's parameters mean."""
    return {name: self.kind(name).model.axes for name in self.own}

  def kind(self, name: str) -> NamedModel:
    """What a model of the stage is; a lagging copy is what it copies."""
    return self.models[self.slow.get(name, name)]

  def view(self, models: Models) -> Models:
    """Models as functions see them, from their own parameters; those made of others are among them."""
    return seen(models, {name: self.kind(name) for name in models}, self.models)

  def load(self, models: Models, mesh: jax.sharding.Mesh) -> Models:
    """The models of the stage that begin from files and that no earlier stage hands on, in their shards.

    Args:
      models: of the stage before; empty for the first.
      mesh: where they are put.
    """
    begins = [name for name in self.missing(models) if self.kind(name).model.load]
    return {name: self.kind(name).load(self.slow.get(name, name), mesh) for name in begins}

  @property
  def wants(self) -> frozenset[str]:
    """The models that the stage takes over where an earlier one has them."""
    sources = {self.slow.get(name, name) for name in self.own}
    begun_from = (owners(self.kind(name).roles.values(), self.models) for name in self.own)
    return frozenset({*self.own, *sources}.union(*begun_from))

  def make(self, models: Models, key: Key) -> Models:
    """Own parameters of the models of the stage that begin here: nobody hands them on and none copies them.

    Args:
      models: own parameters of those that were handed on, and of `load`.
      key: of the stage.
    """
    made: dict[str, Any] = {}

    def begin(name: str) -> Any:
      source = self._source(name, models)
      if source is not None:
        return begin(source)
      if name in models:
        return models[name]
      if name not in made:
        kind = self.kind(name) if name in self.own else self._missing(name)
        known = {asked: begin(asked) for asked in owners(kind.roles.values(), self.models)}
        view = seen(known, {n: self.models[self.slow.get(n, n)] for n in known}, self.models)
        made[name] = kind.model.init(_key_of(name, key), {r: view[asked] for r, asked in kind.roles.items()})
      return made[name]

    for name in self.own:
      begin(name)
    return made

  def copied(self, models: Iterable[str]) -> dict[str, str]:
    """The lagging models that begin as copies, and of which; `models` are the names that are there."""
    sources = {name: self._source(name, models) for name in self.slow}
    return {name: source for name, source in sources.items() if source is not None}

  def missing(self, models: Iterable[str]) -> tuple[str, ...]:
    """The models that begin here, where those of some names are there."""
    return tuple(name for name in self.own if name not in {*models, *self.copied(models)})

  def copies(self, models: Models) -> Models:
    """The lagging models that begin as copies.

    Args:
      models: own parameters of all others.
    """
    return {name: jax.tree.map(jnp.copy, models[of]) for name, of in self.copied(models).items()}

  def settle(self, models: Models, key: Key) -> tuple[Any, Any]:
    """A fresh optimizer state and a fresh world.

    Args:
      models: own parameters of all models of the stage.
      key: of the stage.
    """
    params = {name: models[name] for name in self.trained}
    world = self.rollout.begin(_key_of('world', key))
    ordered = {name: models[name] for name in (*self.slow, *self.trained)}
    world = self.rollout.warm_up(ordered, world, _key_of('warm_up', key))
    return self.optimizer.init(params), world

  def enter(self, models: Models, key: Key, run_key: Key, at_step: jax.Array) -> State:
    """The state at the start of the stage: models handed on or made, a fresh optimizer, a fresh world.

    Args:
      models: own parameters of those of the stage before, and of `load`.
      key: for models and memories that are made here.
      run_key: the key that the state carries.
      at_step: [] int32, train steps taken so far.
    """
    models = {**models, **self.make(models, key)}
    models |= self.copies(models)
    opt_state, world = self.settle(models, key)
    return State(
        step=at_step, params={name: models[name] for name in self.trained},
        slow={name: models[name] for name in self.slow}, opt_state=opt_state, world=world, key=run_key,
    )

  def _source(self, name: str, models: Iterable[str]) -> str | None:
    """The model that a lagging one copies when the stage begins; None for one that begins by itself."""
    source = self.slow.get(name, name)
    return source if source != name and (source in self.own or source in models) else None

  def _missing(self, name: str):
    raise ConfigError(
        f'stage {self.name!r} begins a model from {name!r}, which it neither trains nor holds, and no stage '
        f'before it hands on; add slow.{name}={name!r}'
    )


def _key_of(name: str, key: Key) -> Key:
  return jax.random.fold_in(key, zlib.crc32(name.encode()) % 2**31)


def owners(names: Iterable[str], every: Mapping[str, NamedModel]) -> tuple[str, ...]:
  """The models with parameters of their own among some models, and among those that these stand on."""
  found: dict[str, None] = {}

  def follow(names) -> None:
    for name in names:
      one = every[name]
      if one.model.init is not None:
        found[name] = None
      follow(one.roles[role] for role in one.model.stands_on)

  follow(names)
  return tuple(found)


def seen(own: Models, kinds: Mapping[str, NamedModel], every: Mapping[str, NamedModel]) -> Models:
  """Models as functions take them.

  Args:
    own: their own parameters.
    kinds: what each of them is.
    every: the models of the run; those that are made of others alone are added where these are there.
  """
  shown: dict[str, Any] = {}

  def show(name: str) -> Any:
    if name not in shown:
      one = kinds[name] if name in own else every[name]
      shown[name] = one.model.view(own.get(name), {r: show(one.roles[r]) for r in one.model.stands_on})
    return shown[name]

  for name in there(own, every):
    show(name)
  return shown


def there(own: Iterable[str], every: Mapping[str, NamedModel]) -> tuple[str, ...]:
  """The names of models with parameters of their own, and of those that can be made of them alone."""
  own = tuple(own)

  def is_there(name: str) -> bool:
    one = every[name]
    parts = (one.roles[role] for role in one.model.stands_on)
    return name in own or one.model.init is None and all(map(is_there, parts))

  return (*own, *(name for name in every if name not in own and is_there(name)))


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Run:
  """Everything that the train loop needs, built from one config.

  Attributes:
    config: that it was built from.
    task: what it is about: a `Task` or `Dataset` of texts, or an `Environment`.
    mesh: the devices.
    population: members, of consecutive seeds.
    stages: in order; one that is entered several times stands there as often.
    evals: by their names.
    checkpoint: when states are saved.
    log: what is written.
    trackers: where else.
    asks: evaluations that were compiled, by the names of stage and evaluation.
  """

  config: ConfigDict
  task: Any
  mesh: jax.sharding.Mesh
  population: int
  stages: tuple[Stage, ...]
  evals: tuple[Examination, ...]
  checkpoint: Checkpointing
  log: Logging
  trackers: tuple[Writer, ...]
  asks: dict[tuple[str, str], Callable] = dataclasses.field(default_factory=dict, repr=False)

  @property
  def is_text(self) -> bool:
    """Whether it is about texts, which can be shown."""
    return 'task' in self.config

  def steps_from(self, entry: int) -> int:
    """The most train steps that a stage and those after it can take."""
    return sum(stage.num_steps for stage in self.stages[entry:])

  def visit(self, entry: int) -> int:
    """How often a stage was entered before: 0 for the first time."""
    return self.stages[:entry].count(self.stages[entry])

  def carried(self, entry: int) -> frozenset[str]:
    """The models that pass through a stage untouched where it is handed them: a later one wants them."""
    later = frozenset[str]().union(*(stage.wants for stage in self.stages[entry + 1 :]))
    return later - frozenset(self.stages[entry].own)

  def parks(self, entry: int) -> bool:
    """Whether a stage leaves its optimizer and world for the next time that it is entered."""
    return self.stages[entry].keeps and self.stages[entry] in self.stages[entry + 1 :]

  @property
  def axes(self) -> dict[str, sharding.Axes]:
    """What the axes of every model's parameters mean, in any of the stages."""
    return {name: axes for stage in self.stages for name, axes in stage.axes.items()}

