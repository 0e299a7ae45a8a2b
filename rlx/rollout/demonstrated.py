"""Groups of samples beside a demonstration: what an expert would have said to the same prompt.

An expert's answer can be a measure (`measured`): how sure the policy was of each of its tokens stands in the
same columns, behind the same prompt, at every row of the group (`expert_logprobs`). Or it is a row of the
group as well (`demonstrated`), rewarded, compared and learnt from as any other, with the log-probs that the
policy gives it when the group is sampled.

Demonstrations are few: a problem has one or it has none, and which is a matter of its prompt alone.
"""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, demonstrations
from rlx.errors import ConfigError, between
from rlx.rollout.prompts import check_chance, check_groups, check_single, check_solutions, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World

_FACTOR = 2654435761  # odd, and far from any power of two


def measured(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, shown_share: float
) -> StatefulRollout:
  """Draws training problems and samples their groups, with an expert as the measure of those that have one.

  Args:
    task: where problems and their solutions come from.
    policy: samples, and scores the demonstrations.
    batch_size: rows B of the batch.
    group_size: G; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    shown_share: in [0, 1], the part of all problems that have a demonstration, always the same ones.
  Returns:
    A `rollout` function. Its batches have, of the demonstration of each row's group, `expert_logprobs`
    [B, T], `expert_mask` [B, T] bool, nowhere True where there is none, and `expert_entropy` [B], the mean of
    its tokens in nats.
  Raises:
    ValueError: a size that does not fit, or a solution that is longer than the actions that are scored.
  """
  rollout = _beside(task, policy, batch_size, group_size, num_slots, shown_share)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, _, world = rollout(models, world, key)
    return batch, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def demonstrated(
    task: Task, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int, shown_share: float
) -> StatefulRollout:
  """`measured`, and the demonstration takes the place of the last sample of its group.

  Args:
    task: as for `measured`, like all that follows.
    policy: samples.
    batch_size: rows B.
    group_size: G, at least 2.
    num_slots: rows in the loop.
    shown_share: of the problems have one.
  Returns:
    A `rollout` function. Its batches have the columns of `measured`, and `offline` [B] bool, True for the
    rows that are demonstrations.
  Raises:
    ValueError: as for `measured`.
  """
  if group_size < 2:
    raise ConfigError(f'group_size={group_size}: a demonstration needs a sample beside it; take 2 at least')
  rollout = _beside(task, policy, batch_size, group_size, num_slots, shown_share)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, shown, world = rollout(models, world, key)
    last = jnp.arange(batch_size) % group_size == group_size - 1
    offline = last & batch['expert_mask'].any(axis=1)
    put = lambda x, demonstration: jnp.where(
        offline.reshape(-1, *[1] * (x.ndim - 1)), jnp.repeat(demonstration, group_size, axis=0), x
    )
    exchanged = {name: put(batch[name], x) for name, x in shown.items()}
    return {**batch, **exchanged, 'offline': offline}, world

  return StatefulRollout(begin=task.begin, draw=draw, data=task.data)


def has_demonstration(prompts: jax.Array, *, share: float) -> jax.Array:
  """[P] bool: whether there is a demonstration for each of the prompts [P, Tp]: for a share of them all."""
  mixed = jnp.zeros(prompts.shape[0], jnp.uint32)
  for column in prompts.T.astype(jnp.uint32):
    mixed = (mixed ^ column) * jnp.uint32(_FACTOR)
    mixed ^= mixed >> 15
  return (mixed >> 8).astype(jnp.float32) < share * 2**24


def _beside(task: Task, policy: Speaker, batch_size, group_size, num_slots, shown_share):
  """`(models, world, key) -> (batch, demonstrations, world)`: a row of them for each group."""
  num_groups = check_groups(batch_size, group_size)
  between(0, 1, shown_share=shown_share)
  check_chance(policy, group_size)
  check_single(task)
  check_solutions(task, policy)

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, num_groups)
    prompts, lengths = problems['prompts'], problems['prompt_lengths']
    batch = policy.sample(
        models['policy'], prompts, lengths, sample_key, group_size=group_size, num_slots=num_slots
    )
    shown, entropy = _shown(models['policy'], policy, problems, batch['tokens'].shape[1])
    mask = shown['action_mask'] & has_demonstration(prompts, share=shown_share)[:, None]
    entropy = jnp.where(mask, entropy, 0).sum(axis=1) / jnp.maximum(mask.sum(axis=1), 1)
    expert = {'logprobs': shown['sampler_logprobs'], 'mask': mask, 'entropy': entropy}
    columns = {f'expert_{name}': jnp.repeat(x, group_size, axis=0) for name, x in expert.items()}
    return {**columns_of(problems, group_size), **batch, **columns}, shown, world

  return rollout


def _shown(params, policy: Speaker, problems: Batch, columns: int) -> tuple[Batch, jax.Array]:
  """The demonstrations as rows [P, columns], as if the policy had said them, and its entropies."""
  rows = demonstrations(problems)
  pad = lambda x: jnp.pad(x, ((0, 0), (0, columns - x.shape[1]))) if x.ndim == 2 else x
  rows = {name: pad(x) for name, x in rows.items() if name != 'groups'}
  logprobs, entropy = policy.score(params, rows)
  return {**rows, 'sampler_logprobs': logprobs, 'truncated': jnp.zeros(len(logprobs), bool)}, entropy
