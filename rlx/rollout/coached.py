"""A coach says how hard the next problems are, a player solves them, and the coach is paid for its progress.

An instruction is one token of the coach, which says a level: the number of operations of the problems that
the player gets in this train step. What it was worth is seen a step later, when the player has learnt from
them. So the rollout remembers the last instructions and what each was paid, and these are the coach's rows:

    r_t = J(player_{t+1}) - J(player_t),   J = mean over validation problems of π(solution)

The coach has no words for anything else; every token says a level, so there is no form that it could miss.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.engine.speaker import Speaker
from rlx.envs import text
from rlx.envs.skills import SkillTask
from rlx.errors import ConfigError, at_least
from rlx.models.transformer import Params
from rlx.rollout.inject import without_forms
from rlx.rollout.prompts import check_groups, columns_of
from rlx.types import Batch, Key, Models, Rows, StatefulRollout, World

COACH, PLAYER = 'coach', 'player'
_VALIDATION_SEED = 1  # the validation problems are the same for every run of a task


def coached(
    task: SkillTask, speakers: Mapping[str, Speaker], *, batch_size: int, group_size: int, num_slots: int,
    validation: int, window: int,
) -> StatefulRollout:
  """Samples of problems that are as hard as the coach says, and the coach's last instructions with their pay.

  Args:
    task: where problems come from; a level is a number of operations, from 1 to its `max_steps`.
    speakers: `coach` and `player`, by `names`; learners of these names get the rows.
    batch_size: rows of the player.
    group_size: its samples of a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    validation: problems of all levels, with their solutions, by which the player's performance is measured.
      They are of the share that is trained on.
    window: instructions that the coach learns from in a step, the newest that were paid: one group.
  Returns:
    A `rollout` function. The coach's rows have `rewards`; those of instructions that are not paid yet are
    NaN. The player's rows have the column `coach/level`.
  Raises:
    ConfigError: the speakers are others.
    ValueError: a size that does not fit.
  """
  num_problems = check_groups(batch_size, group_size)
  at_least(1, validation=validation, window=window)
  if set(speakers) != {COACH, PLAYER}:
    raise ConfigError(f'the speakers are {sorted(speakers)}; name a model for each of coach and player')
  coach, player = speakers[COACH].saying(max_tokens=1), speakers[PLAYER]

  def begin(key: Key) -> World:
    del key
    return {
        'performance': jnp.float32(jnp.nan), 'step': jnp.int32(0), 'said': jnp.zeros(window, jnp.int32),
        'logprobs': jnp.zeros(window), 'paid': jnp.full(window, jnp.nan),
    }

  def draw(models: Models, world: World, key: Key) -> tuple[Rows, World]:
    coach_key, make_key, sample_key = jax.random.split(key, 3)
    measured_by = task.sample(jax.random.key(_VALIDATION_SEED), validation, False)
    performance = expected_accuracy(player, models[PLAYER], measured_by)
    world = paid_late(world, performance)
    instructions = _as_rows(task, world)
    start = opening(task)
    row = coach.sample(models[COACH], start[None], jnp.ones(1, jnp.int32), coach_key, group_size=1)
    token = row['tokens'][0, 1]
    level = level_of(token, task.max_steps)
    weights = jnp.ones((num_problems, task.num_skills))
    steps = jnp.broadcast_to(level, (num_problems,))
    problems = without_forms(task.compose(make_key, weights, steps, False))
    batch = player.sample(
        models[PLAYER], problems['prompts'], problems['prompt_lengths'], sample_key, group_size=group_size,
        num_slots=num_slots,
    )
    levels = jnp.broadcast_to(level, (batch_size,)).astype(jnp.float32)
    batch = {**columns_of(problems, group_size), **batch, 'coach/level': levels}
    world = with_choice(world, token, row['sampler_logprobs'][0, 1])
    return {COACH: instructions, PLAYER: batch}, world

  return StatefulRollout(begin=begin, draw=draw, data=None)


def paid_late(world: World, performance: jax.Array) -> World:
  """The memory in which the last instruction is paid what the player's performance has risen by since.

  Args:
    world: of the rollout, before the next instruction.
    performance: [] of the player now.
  """
  place = (world['step'] - 1) % world['paid'].shape[0]
  rise = performance - world['performance']  # NaN before there was an instruction
  return {**world, 'paid': world['paid'].at[place].set(rise), 'performance': performance}


def with_choice(world: World, token: jax.Array, logprob: jax.Array) -> World:
  """The memory with a new instruction, which is not paid yet, in the place of the oldest."""
  place = world['step'] % world['paid'].shape[0]
  put = lambda name, x: world[name].at[place].set(x)
  return {
      **world, 'step': world['step'] + 1, 'said': put('said', token), 'logprobs': put('logprobs', logprob),
      'paid': put('paid', jnp.nan),
  }


def level_of(token: jax.Array, num_levels: int) -> jax.Array:
  """The level that a token says, in 1..num_levels: every token says one."""
  return 1 + token % num_levels


def opening(task: text.Task) -> jax.Array:
  """[1] int32: what the coach reads, always the same."""
  return text.characters(task.alphabet[:1], task.alphabet)


def expected_accuracy(speaker: Speaker, params: Params, problems: Batch) -> jax.Array:
  """[] float32: the mean chance of the solutions of problems, as the speaker draws."""
  rows = sharding.shard_rows(text.demonstrations(problems))
  logprobs, _ = speaker.score(params, rows)
  return jnp.exp(jnp.where(rows['action_mask'], logprobs, 0).sum(axis=1)).mean()


def _as_rows(task: SkillTask, world: World) -> Batch:
  """The instructions of the window as rows of two tokens, all of one group."""
  num = world['said'].shape[0]
  tokens = jnp.stack([jnp.broadcast_to(opening(task), (num,)), world['said']], axis=1)
  action_mask = jnp.broadcast_to(jnp.array([False, True]), (num, 2))
  return {
      'tokens': tokens, 'valid': jnp.ones((num, 2), bool), 'action_mask': action_mask,
      'prompt_lengths': jnp.ones(num, jnp.int32), 'turns': jnp.where(action_mask, 0, -1),
      'groups': jnp.zeros(num, jnp.int32), 'truncated': jnp.zeros(num, bool),
      'sampler_logprobs': jnp.where(action_mask, world['logprobs'][:, None], 0), 'rewards': world['paid'],
  }
