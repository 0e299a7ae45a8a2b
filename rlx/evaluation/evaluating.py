"""Judges of several formats (`envs/evaluating.py`), by format, and as those who choose among answers."""

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.evaluating import FORMATS, JudgedTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, SAMPLES_SEED, Evaluation
from rlx.types import Models, World


def by_format(task: JudgedTask, policy: Speaker, *, problems: int) -> Evaluation:
  """The share of held-out questions that are judged right without chance, for each format and as a mean.

  Args:
    task: whose formats are asked.
    policy: the judge.
    problems: how many questions, over all formats.
  """
  at_least(1, problems=problems)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    asked = task.sample(jax.random.key(PROBLEMS_SEED), problems, True)
    rows = policy.mode(models['policy'], asked['prompts'], asked['prompt_lengths'])
    right = task.verify(asked, engine.completions_of(rows, policy.decoding))
    of = {name: right.mean(where=asked['formats'] == k) for k, name in enumerate(FORMATS)}
    return {**of, 'mean': sum(of.values()) / len(of)}

  return Evaluation(ask=ask, read=_numbers)


def reranking(task: JudgedTask, policy: Speaker, *, problems: int, candidates: int, votes: int) -> Evaluation:
  """The best of several solutions of held-out sums, as the judge has it: the one that most votes call right.

  The metrics are `single`, the share of solutions that end right; `chosen`, of those that are chosen, the
  first of equals; `oracle`, of sums with a solution that does; and `share`, how much of the way from the
  first to the last the judge goes.

  Args:
    task: whose sums are solved, with slips.
    policy: the judge, in the format `free`, by its own decoding.
    problems: how many sums.
    candidates: solutions of each.
    votes: verdicts on each solution.
  """
  at_least(1, problems=problems, candidates=candidates, votes=votes)

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    drawn = task.solve(jax.random.key(PROBLEMS_SEED), problems, True, candidates)
    flat = drawn['solutions'].reshape(problems * candidates, -1)
    prompts, lengths = task.ask_free(jnp.repeat(drawn['operands'], candidates, axis=0), flat)
    rows = policy.sample(
        models['policy'], prompts, lengths, jax.random.key(SAMPLES_SEED), group_size=votes
    )
    said = engine.completions_of(rows, policy.decoding)
    verdict = jnp.full(len(said), task.encode('1')[0])
    called = task.verify({'verdicts': verdict}, said).reshape(problems, candidates, votes).mean(axis=2)
    right = drawn['ends_right'].astype(jnp.float32)
    chosen = jnp.take_along_axis(right, jnp.argmax(called, axis=1)[:, None], axis=1).mean()
    single, oracle = right.mean(), right.max(axis=1).mean()
    return {
        'single': single, 'chosen': chosen, 'oracle': oracle,
        'share': (chosen - single) / jnp.maximum(oracle - single, 1e-6),
    }

  return Evaluation(ask=ask, read=_numbers)


def _numbers(answer):
  return {name: float(x) for name, x in answer.items()}, []
