"""What rounds of drafts come to, of problems that are never trained on."""

from collections.abc import Callable
import dataclasses

import jax

from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.rollout import refine
from rlx.types import Models, World


def refined(
    task: Task, policy: Speaker, *, problems: int, group_size: int, num_rounds: int, distil: Callable
) -> Evaluation:
  """Rounds of drafts of held-out problems, drawn as the stage draws.

  Args:
    task: where problems come from; it verifies completions itself.
    policy: what is examined, with its own decoding.
    problems: how many held-out problems are asked.
    group_size: drafts of a problem in a round.
    num_rounds: as for `rollout.refine.rounds`.
    distil: as for `rollout.refine.rounds`.
  Returns:
    The evaluation; its metrics are `first`, the share of drafts of the first round that are right,
    `last`, that of the last round, and `gain`, what the last is above the first.
  """
  held_out = dataclasses.replace(task, sample=lambda key, num, _: task.sample(key, num, True))
  rows = problems * group_size * num_rounds
  operate = refine.rounds(
      held_out, policy, batch_size=rows, group_size=group_size, num_slots=0, num_rounds=num_rounds,
      distil=distil,
  )

  def ask(models: Models, world: World) -> jax.Array:
    del world
    key = jax.random.key(PROBLEMS_SEED)
    batch, _ = operate(models, operate.begin(key), key)
    right = task.verify(batch, engine.completions_of(batch, policy.decoding))
    return right.reshape(num_rounds, -1).mean(axis=1)

  def read(right: jax.Array):
    first, last = float(right[0]), float(right[-1])
    return {'first': first, 'last': last, 'gain': last - first}, []

  return Evaluation(ask=ask, read=read)
