"""Episodes of several seats on tasks that come from failures: what the policy fails at is asked for again.

Tasks whose groups fail are remembered, the newest ones, and a part of every batch are tasks like them, that
the world makes (`VariedTask.vary`). So a curriculum follows the policy: what it can do is no longer asked for
anew, and what it meets seldom and fails at becomes frequent.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx.engine import seats as engine
from rlx.engine.speaker import Speaker
from rlx.envs.seats import VariedTask
from rlx.envs.text import Task
from rlx.errors import ConfigError, at_least, between
from rlx.rollout import store
from rlx.rollout.prompts import check_groups
from rlx.rollout.seats import asking, check_seats
from rlx.rollout.turns import Horizon
from rlx.types import Batch, Key, Models, StatefulRollout, World

FAILED, ASKED = 'failed', 'asked'  # problems that are remembered, and those of the last batch, in `world`


def from_failures(
    task: Task, speakers: Mapping[str, Speaker], *, episodes: int, group_size: int, turn_tokens: int,
    max_turns: Horizon, learnt: tuple[str, ...], share: float, size: int, at_most: float,
) -> StatefulRollout:
  """As `seats.episodes`; a share of the problems are like those that have failed.

  Args:
    task: a world that makes problems like others.
    speakers: seat -> who speaks there, by `names`.
    episodes: E of a batch.
    group_size: episodes a problem; divides `episodes`.
    turn_tokens: the most tokens of an action.
    max_turns: the most actions of an episode, by the train step.
    learnt: the seats whose rows make the batch.
    share: of the problems of a batch, in [0, 1]; as long as nothing has failed all are drawn.
    size: how many failures are remembered, the newest ones.
    at_most: a problem has failed where no more of its episodes succeed, in [0, 1]. An episode succeeds where
      the reward of the first seat that is learnt is above 1/2, whoever says it: the world, or a model.
  Returns:
    A `rollout` function. Its batches have, for the metrics, `evolved/made`, the share of episodes on problems
    that were made.
  Raises:
    ValueError: as for `seats.episodes`, or the world makes no problems like others.
  Source: the self-evolving curriculum of AutoGLM, https://arxiv.org/abs/2411.00820, as WebRL has it,
    https://arxiv.org/abs/2411.02337. There a language model writes the tasks and a critic sorts out what
    cannot be done; here the world makes none that cannot.
  """
  if not isinstance(task, VariedTask):
    raise ConfigError(f'{type(task).__name__} makes no problems like others: evolved.from_failures needs it')
  num_groups = check_groups(episodes, group_size, of='episodes')
  check_seats(task, learnt)
  between(0, 1, share=share, at_most=at_most)
  at_least(num_groups, size=size)
  ask = asking(task, speakers, group_size=group_size, turn_tokens=turn_tokens, max_turns=max_turns)

  def begin(key: Key) -> World:
    like = jax.eval_shape(lambda key: task.sample(key, num_groups, False), key)
    asked = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), like)
    return {'task': task.begin(key), 'step': jnp.int32(0), ASKED: asked, FAILED: store.empty(like, size)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, pick_key, vary_key, sample_key, world_key = jax.random.split(key, 5)
    fresh, drawn = task.draw(world['task'], problem_key, num_groups)
    made = task.vary(store.sample(world[FAILED], pick_key, num_groups), vary_key)
    is_made = (jnp.arange(num_groups) < round(share * num_groups)) & (world[FAILED]['size'] > 0)
    problems = jax.tree.map(lambda x, y: jnp.where(_like(is_made, x), x, y), made, fresh)
    rows = ask(models, problems, sample_key, world_key, world['step'])
    told = {'evolved/made': jnp.tile(jnp.repeat(is_made, group_size), len(learnt))}
    batch = {**engine.together(rows, learnt), **told}
    return batch, {**world, 'task': drawn, 'step': world['step'] + 1, ASKED: problems}

  def observe(world: World, batch: Batch) -> World:
    outcomes = batch['rewards'][:episodes].reshape(num_groups, group_size)  # of the first seat that is learnt
    succeeded = jnp.mean(outcomes > 0.5, axis=1)
    failed = store.write_where(world[FAILED], world[ASKED], succeeded <= at_most)
    return {**world, FAILED: failed}

  return StatefulRollout(begin=begin, draw=draw, data=None, observe=observe)


def _like(mask: jax.Array, x: jax.Array) -> jax.Array:
  return mask.reshape(-1, *[1] * (x.ndim - 1))
