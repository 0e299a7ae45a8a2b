"""OpenClaw-RL: what a user says behind an action is a hint for a teacher, which is the policy itself.

    A_t = w_r A^GRPO_t + w_h clip(log π(a_t | s_t, hint) - log π(a_t | s_t), -c, c)

The hint is read off the next states of the episode (`corrected`), and stands in the prompt of the teacher:
the same parameters, which see in hindsight what was wanted. What the teacher would rather have said is pushed
up token by token, where a reward says the same of all that was said. It speaks of what the hint is about, and
of that alone: A^GRPO is all that other tokens have.

Source: https://arxiv.org/abs/2603.10165. There a judge makes rewards of turns and hints in words; here the
reward is the world's, for the episode, and the hint is what the user said.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp

from rlx.algorithms.policy_gradient import grpo_with
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.envs.worlds.corrected import CorrectedTask
from rlx.errors import ConfigError
from rlx.losses import policy as policy_losses
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def openclaw(
    rollout: Rollout, reward: Annotate, policy: Speaker, task: Task, *, clip_low: float, clip_high: float,
    reward_weight: float, hint_weight: float, gap_max: float,
) -> Algorithm:
  """GRPO with the gap between the policy that has read the hint and the one that has not.

  Args:
    rollout: yields rows of episodes in groups.
    reward: adds `rewards` [B].
    policy: what learns, and with hints in its prompt the teacher.
    task: a world whose user corrects.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    reward_weight: w_r; with 0 hints alone.
    hint_weight: w_h; with 0 it is GRPO.
    gap_max: c, in nats.
  Raises:
    ConfigError: the world has no user who corrects.
  """
  if not isinstance(task, CorrectedTask):
    raise ConfigError(f'{type(task).__name__} corrects nobody; take the world corrected')
  parent = grpo_with(
      rollout, reward, policy,
      surrogate=partial(policy_losses.clipped, clip_low=clip_low, clip_high=clip_high),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    hints = task.corrections_of(batch)
    gap = hint_gap(policy, models['policy'], batch, with_hints(task, batch, hints))
    hinted = jnp.any(hints >= 0, axis=1)
    meant = is_meant(task, batch, hints)
    gap = jnp.where(meant, jnp.clip(gap, -gap_max, gap_max), 0)
    return {
        **batch, 'advantages': reward_weight * batch['advantages'] + hint_weight * gap,
        'hint/given': hinted.astype(jnp.float32),
        'hint/gap': gap.sum(axis=1) / jnp.maximum(meant.sum(axis=1), 1),  # 0 in a row without a hint
    }

  return dataclasses.replace(parent, advantage=advantage)


def with_hints(task: CorrectedTask, batch: Batch, hints: jax.Array) -> Batch:
  """The rows with hints [B, keys] as lessons in their prompts; -1 where there is none."""
  keys = jnp.where(hints >= 0, jnp.arange(hints.shape[1]), -1)
  columns = task.prompt_columns
  prompts = task.with_lessons({'prompts': batch['tokens'][:, :columns]}, keys, hints)['prompts']
  return {**batch, 'tokens': batch['tokens'].at[:, :columns].set(prompts)}


def is_meant(task: CorrectedTask, batch: Batch, hints: jax.Array) -> jax.Array:
  """[B, T] bool: actions that a hint [B, keys] is about; of others its reader knows no more than before."""
  keys, _ = task.pairs_of(batch)
  return (keys >= 0) & (jnp.take_along_axis(hints, jnp.maximum(keys, 0), axis=1) >= 0)


def hint_gap(policy: Speaker, params, batch: Batch, hinted: Batch) -> jax.Array:
  """[B, T] log π(a | s, hint) - log π(a | s), of actions; a constant."""
  return jax.lax.stop_gradient(policy.score(params, hinted)[0] - policy.score(params, batch)[0])
