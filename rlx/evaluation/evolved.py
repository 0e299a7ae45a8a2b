"""How hard the tasks are that a curriculum of failures asks for."""

import jax
import jax.numpy as jnp

from rlx.envs.seats import VariedTask
from rlx.errors import between
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.rollout.evolved import FAILED
from rlx.types import Models, World


def asked(task: VariedTask, *, of: str, share: float, problems: int) -> Evaluation:
  """The mean of a column over the tasks that `evolved.from_failures` would ask for next, as the metric `of`.

  Args:
    task: the world; one that is made from another has the column as that one has it.
    of: a column [N] of its problems, such as how many goals they have.
    share: of tasks that are made from failures, as that of the rollout.
    problems: fresh ones, whose mean is that of the rest; all are fresh where nothing has failed.
  """
  between(0, 1, share=share)

  def ask(models: Models, world: World):
    del models
    fresh = task.sample(jax.random.key(PROBLEMS_SEED), problems, False)[of].mean()
    if FAILED not in world:  # another stage
      return {of: fresh}
    rows, size = world[FAILED]['rows'][of], world[FAILED]['size']
    failed = jnp.mean(rows, where=jnp.arange(len(rows)) < size)
    return {of: jnp.where(size > 0, share * failed + (1 - share) * fresh, fresh)}

  return Evaluation(ask=ask, read=lambda metrics: ({name: float(x) for name, x in metrics.items()}, []))
