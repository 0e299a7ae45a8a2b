"""A run that is there already, opened to be examined, played or exported. Nothing of it is touched."""

from collections.abc import Iterator
import contextlib
import dataclasses
from pathlib import Path

import jax
from ml_collections import ConfigDict

from rlx import config as configs
from rlx.errors import ConfigError
from rlx.run import examining, train
from rlx.run.build import build
from rlx.run.stages import Examination, Run, Stage, there
from rlx.run.states import load_frozen
from rlx.run.train import Position
from rlx.types import Models, State


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Opened:
  """A run at one of its checkpoints.

  Attributes:
    run: built from its config.
    state: that was saved; stacked for a population.
    position: where in the run it is.
    frozen: models of the stage that come from files.
  """

  run: Run
  state: State
  position: Position
  frozen: Models

  @property
  def stage(self) -> Stage:
    """The stage that it is in."""
    return self.run.stages[self.position.stage]

  def own(self, member: int) -> Models:
    """Own parameters of the models, the frozen ones with them, of one member of a population.

    Raises:
      ConfigError: there is no such member.
    """
    if not 0 <= member < self.run.population:
      raise ConfigError(f'--member={member}: the run has {self.run.population}, counted from 0')
    models = self.state.models
    if self.run.population > 1:
      models = jax.tree.map(lambda a: a[member], models)
    return {**self.frozen, **models}

  def lacks(self, exam: Examination) -> list[str]:
    """The models that an evaluation asks for and the stage does not hold; it then cannot be made."""
    return sorted(exam.needs - set(there(self.stage.own, self.stage.models)))

  def examine(self, exam: Examination) -> tuple[dict[str, float], list[dict]]:
    """What an evaluation says: metrics by their names in `metrics.jsonl`, and transcripts.

    Raises:
      ConfigError: the stage lacks a model that it asks for.
    """
    if missing := self.lacks(exam):
      raise ConfigError(
          f'evals.{exam.name} asks for {missing}, which stage {self.stage.name!r} at step '
          f'{self.position.step} does not hold'
      )
    ask = examining.make_ask(self.run, self.stage, exam)
    with jax.set_mesh(self.run.mesh):
      answer = jax.device_get(ask(self.state.models, self.state.world, self.frozen))
    metrics, transcripts, _ = examining.read_answer(self.run, exam, answer)
    return metrics, transcripts


@contextlib.contextmanager
def open_run(workdir: str | Path, config: ConfigDict, *, step: int | None) -> Iterator[Opened]:
  """A run at a checkpoint; what it started on the host ends with the context.

  Args:
    workdir: of the run, at work or not.
    config: of the run, from `config_of`, perhaps with other values where they do not change the state.
    step: of the checkpoint; None for the newest intact one.
  Raises:
    ConfigError: there is no such checkpoint, or the config cannot run or does not fit it.
  """
  run = build(config)
  with contextlib.ExitStack() as stack:
    for stage in run.stages:
      stack.callback(stage.program.close)
    for exam in run.evals:
      stack.callback(exam.close)
    with jax.set_mesh(run.mesh):
      state, position = train.restore(run, workdir, step=step)
      frozen = load_frozen(run, position.stage, {})
    yield Opened(run=run, state=state, position=position, frozen=frozen)


def config_of(workdir: str | Path) -> ConfigDict:
  """The config of a run, to be built again.

  Raises:
    ConfigError: the directory holds no run.
  """
  configs.of_run(workdir)
  return configs.load(str(Path(workdir) / 'config.json'))
