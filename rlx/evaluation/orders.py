"""Whether a policy that codes steer visits colours in an order that it is rewarded for."""

import jax

from rlx.engine.speaker import Speaker
from rlx.envs.subgoals import Grid
from rlx.evaluation.episodes import EPISODES_SEED, numbers
from rlx.evaluation.evaluation import Evaluation
from rlx.models.controller import Reader
from rlx.rollout.internal import steered_rows
from rlx.types import Models, World


def arrives(
    task: Grid, policy: Speaker, controller: Reader, actor: Reader, *, rows: int, num_steps: int,
    num_lower: int, order: tuple[int, ...],
) -> Evaluation:
  """`arrives`: the share of rows that complete an order, with codes and moves drawn as in training.

  Args:
    task: the world.
    policy: acts; its functions alone, whatever its decoding says.
    controller: says when a new code is wanted, and what it changes.
    actor: draws codes.
    rows: how many, from starts that are the same for every run.
    num_steps: T, moves of a row.
    num_lower: blocks below the controller.
    order: colours to visit.
  Raises:
    ValueError: the models do not fit each other or the rows, or the world has no such colours.
  """
  act = steered_rows(
      task, policy.model, controller, actor, num=rows, num_steps=num_steps, num_lower=num_lower, order=order
  )

  def ask(models: Models, world: World) -> dict[str, jax.Array]:
    del world
    return {'arrives': act(models, jax.random.key(EPISODES_SEED))['rewards'].mean()}

  return Evaluation(ask=ask, read=numbers)
