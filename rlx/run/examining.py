"""Evaluations of a run: how models of a stage are asked, and what the answer says."""

import jax
import numpy as np

from rlx.evaluation.evaluation import HostEvaluation
from rlx.run.program import over_members
from rlx.run.stages import Examination, Run, Stage
from rlx.run.writers import summarise_population


def make_ask(run: Run, stage: Stage, exam: Examination):
  """An evaluation of the models of a stage, compiled: `(own models, world, frozen) -> answer`.

  Of a population, for each member; what is Python calls its own programs.
  """
  ask = lambda models, world, frozen: exam.evaluation.ask(stage.view({**frozen, **models}), world)
  if isinstance(exam.evaluation, HostEvaluation):
    return ask
  return jax.jit(over_members(ask, run.population, (0, 0, None)))


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
