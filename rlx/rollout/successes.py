"""One success of each problem is remembered, and takes the place of a failure where a whole group has failed.

A group in which nobody succeeds says nothing: all of its advantages are 0. With an earlier success among them
it does. The row that comes back has the log-probs with which it was sampled (`sampler_logprobs`), so that
ratios are to the policy of then, and losses that clip them keep what is too far away out.

Source: ARPO, https://arxiv.org/abs/2505.16282 (experience replay of successes in all-fail groups).
"""

import jax
import jax.numpy as jnp

from rlx.controllers import schedules
from rlx.engine import turns as engine
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.envs.text import Task
from rlx.errors import ConfigError, at_least
from rlx.rollout.curriculum import numbered
from rlx.rollout.prompts import check_chance, check_groups, columns_of
from rlx.rollout.turns import Horizon, as_world
from rlx.types import Batch, Key, Models, StatefulRollout, World

_ITS_OWN = ('groups', 'trajectories', 'rows')  # of the batch that a row is in


def replayed_episodes(
    task: Task, policy: Speaker, *, num_problems: int, batch_size: int, group_size: int, num_slots: int,
    turn_tokens: int, max_turns: Horizon, success: float,
) -> StatefulRollout:
  """`turns.episodes` of numbered problems, with one remembered success of each.

  Args:
    task: the world.
    policy: speaks.
    num_problems: N; so many are made, always the same, and at least as many as there are groups.
    batch_size: rows B of the batch.
    group_size: episodes a problem.
    num_slots: episodes in the loop at a time; 0 for all.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode, by the train step.
    success: an episode with at least this return is one. The newest is remembered.
  Returns:
    A `rollout` function. Its batches have `rows`, `reused`, and for the metrics `replay/used`, the share of
    rows that came back, and `replay/known`, of problems with a success that is remembered.
  Raises:
    ValueError: a size that does not fit, or a task that is no world.
  """
  world_of = as_world(task)
  num_groups = check_groups(batch_size, group_size)
  check_chance(policy, group_size)
  at_least(0, num_slots=num_slots)
  engine.check(world_of, policy.decoding, Turns(turn_tokens, 2))
  if num_problems < num_groups:
    raise ConfigError(f'num_problems={num_problems} are fewer than the {num_groups} groups of a batch')
  problems = numbered(world_of, num_problems)

  def sample(params, drawn: Batch, key: Key, step: jax.Array) -> Batch:
    sample_key, world_key = jax.random.split(key)
    return engine.sample(
        params, policy.model, world_of, drawn, sample_key, group_size=group_size, decoding=policy.decoding,
        turns=Turns(turn_tokens, jnp.maximum(max_turns(step), 1)), num_slots=num_slots, world_key=world_key,
    )

  def begin(key: Key) -> World:
    params = jax.eval_shape(policy.model.init, key)
    some = jax.tree.map(lambda x: x[:num_groups], problems)
    shapes = jax.eval_shape(sample, params, some, key, schedules.constant(0, value=0))
    empty = lambda x: jnp.zeros((num_problems, *x.shape[1:]), x.dtype)
    rows = {name: empty(x) for name, x in shapes.items() if _comes_back(name)}
    return {'known': jnp.zeros(num_problems, bool), 'rows': rows, 'step': jnp.int32(0)}

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, memory = world['data'], {name: world[name] for name in ('known', 'rows', 'step')}
    which = jax.random.choice(problem_key, num_problems, (num_groups,), replace=False)
    drawn = {name: jnp.asarray(x)[which] for name, x in problems.items()}
    batch = sample(models['policy'], drawn, sample_key, memory['step'])
    batch, memory = _exchanged(batch, which, memory, group_size=group_size, success=success)
    return {**columns_of(drawn, group_size), **batch}, {**memory, 'step': memory['step'] + 1}

  return StatefulRollout(begin=begin, draw=draw, data=problems)


def _comes_back(name: str) -> bool:
  return '/' not in name and name not in _ITS_OWN


def _exchanged(batch: Batch, which: jax.Array, memory: World, *, group_size: int, success: float):
  """The batch with what is remembered in failed groups, and the memory with the successes of the batch.

  Args:
    batch: [P * G] fresh rows.
    which: [P] int32, numbers of their problems.
    memory: `known` [N] and `rows` [N, ..].
    group_size: G.
    success: the least return of one.
  """
  right = (batch['rewards'] >= success).reshape(-1, group_size)
  solved = right.any(axis=1)
  firsts = jnp.arange(right.shape[0]) * group_size
  back = ~solved & memory['known'][which]
  place = jnp.where(back, firsts, batch['rewards'].shape[0])
  best = firsts + jnp.argmax(right, axis=1)
  problem = jnp.where(solved, which, memory['known'].shape[0])
  kept = {name: x.at[problem].set(batch[name][best], mode='drop') for name, x in memory['rows'].items()}
  exchanged = {
      name: batch[name].at[place].set(x[which], mode='drop') for name, x in memory['rows'].items()
  }
  known = memory['known'] | jnp.zeros_like(memory['known']).at[problem].set(True, mode='drop')
  reused = jnp.zeros(batch['rewards'].shape, bool).at[place].set(True, mode='drop')
  told = {
      'rows': jnp.repeat(which, group_size), 'reused': reused, 'replay/used': reused.astype(jnp.float32),
      'replay/known': jnp.full(reused.shape, known.mean()),
  }
  return {**batch, **exchanged, **told}, {**memory, 'known': known, 'rows': kept}
