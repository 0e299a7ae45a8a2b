"""What a coach tells a player to do, and how well the player does at each level; nothing is sampled."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.engine.sample import adjusted_logits
from rlx.engine.speaker import Speaker
from rlx.envs.skills import SkillTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.rollout import coached
from rlx.types import Models, World


def instructed(task: SkillTask, speakers: Mapping[str, Speaker], *, problems: int) -> Evaluation:
  """The level that a coach of `rollout/coached.py` gives on average, and what its player solves.

  Args:
    task: of the run.
    speakers: `coach` and `player`, by `names`.
    problems: how many held-out problems are looked at, of each level.
  Returns:
    The evaluation; its metrics are `level`, the mean of the coach's distribution; `said_<k>`, the chance of
    level k; `solved_<k>`, the mean chance of right solutions at level k; and `solved`, the mean of these.
  """
  at_least(1, problems=problems)
  coach, player = speakers[coached.COACH], speakers[coached.PLAYER]
  numbers = jnp.arange(1, task.max_steps + 1)

  def ask(models: Models, world: World):
    del world
    params = models[coached.COACH]
    hidden, _ = coach.model.forward(params, coached.opening(task)[None])
    logits = adjusted_logits(params, coach.model, coach.decoding, hidden[:, -1], jnp.ones(1, jnp.int32))
    chances = jax.nn.softmax(logits[0])
    said = jax.ops.segment_sum(
        chances, coached.level_of(jnp.arange(chances.shape[0]), task.max_steps) - 1,
        num_segments=task.max_steps,
    )
    at_level = lambda level: _solved(task, player, models[coached.PLAYER], problems, level)
    solved = jax.lax.map(at_level, numbers)
    return {
        'level': jnp.sum(said * numbers), 'solved': solved.mean(),
        **{f'said_{i + 1}': chance for i, chance in enumerate(said)},
        **{f'solved_{i + 1}': rate for i, rate in enumerate(solved)},
    }

  def read(answer):
    return {name: float(x) for name, x in answer.items()}, []

  return Evaluation(ask=ask, read=read)


def _solved(task: SkillTask, player: Speaker, params, problems: int, level: jax.Array) -> jax.Array:
  weights, steps = jnp.ones((problems, task.num_skills)), jnp.broadcast_to(level, (problems,))
  asked = task.compose(jax.random.key(PROBLEMS_SEED), weights, steps, True)
  return coached.expected_accuracy(player, params, asked)
