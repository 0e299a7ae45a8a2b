"""Evaluations of a run: how models of a stage are asked, and what the answer says."""

import jax
import numpy as np

from rlx.errors import ConfigError
from rlx.evaluation.evaluation import HostEvaluation
from rlx.run.program import over_members
from rlx.run.stages import Examination, Run, Stage, there
from rlx.run.writers import summarise_population
from rlx.types import Models, State


def make_ask(run: Run, stage: Stage, exam: Examination):
  """An evaluation of the models of a stage, compiled once: `(own models, world, frozen) -> answer`.

  Of a population, for each member; what is Python calls its own programs.
  """
  if (stage.name, exam.name) not in run.asks:
    ask = lambda models, world, frozen: exam.evaluation.ask(stage.view({**frozen, **models}), world)
    is_python = isinstance(exam.evaluation, HostEvaluation)
    compiled = ask if is_python else jax.jit(over_members(ask, run.population, (0, 0, None)))
    run.asks[stage.name, exam.name] = compiled
  return run.asks[stage.name, exam.name]


def exams_of(run: Run, stage: Stage) -> list[Examination]:
  """The evaluations that a stage has the models for."""
  return [exam for exam in run.evals if exam.needs <= set(there(stage.own, stage.models))]


def check(run: Run, stage: Stage, state: State, frozen: Models) -> None:
  """Traces the evaluations of a stage on an abstract state.

  Raises:
    ConfigError: one cannot be made with this stage's models and decoding.
  """
  for exam in exams_of(run, stage):
    if isinstance(exam.evaluation, HostEvaluation):
      continue
    try:
      make_ask(run, stage, exam).eval_shape(state.models, state.world, frozen)
    except ValueError as error:
      raise ConfigError(f'evals.{exam.name}, in stage {stage.name!r}: {error}') from error


def read_answer(run: Run, exam: Examination, answer) -> tuple[dict[str, float], list[dict], dict]:
  """What an evaluation has answered, on the host: metrics by their names in `metrics.jsonl`, transcripts (of
  the first member of a population), and the metrics of each member [N]; none of a single run."""
  named = lambda metrics: {f'eval/{exam.name}/{name}': x for name, x in metrics.items()}
  if run.population == 1:
    metrics, transcripts = exam.evaluation.read(answer)
    return named(metrics), transcripts, {}
  member = lambda i: exam.evaluation.read(jax.tree.map(lambda a: a[i], answer))
  metrics, transcripts = zip(*map(member, range(run.population)), strict=True)
  together = named({name: np.array([one[name] for one in metrics]) for name in metrics[0]})
  return summarise_population(together), transcripts[0], together
