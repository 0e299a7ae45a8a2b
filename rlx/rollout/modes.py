"""Modes that the first action tells, such as to think or to answer at once.

While a policy learns, each group is sampled in every mode alike: the mode's token stands behind the prompt
when the row is sampled, and is handed over as the row's first *action*, with the log-prob that the policy
gives it. So the loss teaches which mode to choose, and a policy that is left alone chooses one by its first
token: plain `prompts.completions`.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.rollout.prompts import check_groups, columns_of
from rlx.types import Batch, Key, Models, StatefulRollout, World


def forced(
    task: Task | Dataset, policy: Speaker, *, batch_size: int, group_size: int, num_slots: int,
    modes: Sequence[str],
) -> StatefulRollout:
  """Draws training problems and samples the same number of completions of each in every mode.

  Args:
    task: where problems come from; it encodes the modes, and its `verify` reads completions with them.
    policy: samples; the mode's token counts as one of its `max_tokens` and of `min_tokens`.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
    num_slots: as for `prompts.completions`.
    modes: what tells each mode, one token each; their number M divides `group_size`.
  Returns:
    A `rollout` function. Its batches have `modes` [B] int32, in 0..M-1, and `groups` of all modes together.
  Raises:
    ValueError: numbers that do not divide, a mode of several tokens, or no room for a token behind it.
  """
  num_groups, num_modes = check_groups(batch_size, group_size), len(modes)
  if num_modes < 1 or group_size % num_modes:
    raise ValueError(f'{num_modes} modes do not divide rollout.group_size={group_size}; sample each as often')
  max_tokens, min_tokens = policy.decoding.max_tokens, policy.decoding.min_tokens
  if max_tokens < 2:
    raise ValueError(f'max_tokens={max_tokens} leaves no token behind the mode; raise it to 2')
  marks, per_mode = mode_tokens(task, modes), group_size // num_modes
  behind = policy.saying(max_tokens=max_tokens - 1, min_tokens=max(min_tokens - 1, 0))

  def rollout(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    problem_key, sample_key = jax.random.split(key)
    problems, world = task.draw(world, problem_key, num_groups)
    prompts, lengths = with_modes(problems['prompts'], problems['prompt_lengths'], marks)
    batch = behind.sample(
        models['policy'], prompts, lengths, sample_key, group_size=per_mode, num_slots=num_slots
    )
    chances = _logprobs(models['policy'], policy, prompts, lengths)
    batch = as_action(batch, jnp.repeat(chances, per_mode))
    numbers = jnp.repeat(jnp.arange(num_modes, dtype=jnp.int32), per_mode)
    return {
        **columns_of(problems, group_size), **batch, 'modes': jnp.tile(numbers, num_groups),
        'groups': batch['groups'] // num_modes,
    }, world

  return StatefulRollout(begin=task.begin, draw=rollout, data=task.data)


def chosen(batch: Batch, marks: jax.Array) -> jax.Array:
  """[B] int32: the mode that the first action of each row tells; -1 for none.

  Args:
    batch: rows with `tokens, prompt_lengths`.
    marks: [M] int32 of `mode_tokens`.
  """
  first = engine.actions(batch, batch['tokens'], 1)
  told = first == marks[None]
  return jnp.where(told.any(axis=1), jnp.argmax(told, axis=1), -1).astype(jnp.int32)


def mode_tokens(task: Task | Dataset, modes: Sequence[str]) -> jax.Array:
  """[M] int32: the token of each mode. Raises `ValueError` where a mode is not one token of its own."""
  encoded = [np.asarray(task.encode(mode)).tolist() for mode in modes]
  if any(len(tokens) != 1 for tokens in encoded) or len({tokens[0] for tokens in encoded}) < len(modes):
    raise ValueError(f'modes={tuple(modes)} are the tokens {encoded}; pass a different token for each')
  return jnp.array(encoded, jnp.int32)[:, 0]


def with_modes(prompts: jax.Array, lengths: jax.Array, marks: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Every prompt [P, Tp] with every mode of `marks` [M] behind it, [P * M, Tp + 1], and their lengths."""
  num_prompts, num_modes = prompts.shape[0], marks.shape[0]
  prompts = jnp.repeat(jnp.pad(prompts, ((0, 0), (0, 1))), num_modes, axis=0)
  lengths = jnp.repeat(lengths, num_modes)
  is_mode = jnp.arange(prompts.shape[1])[None] == lengths[:, None]
  return jnp.where(is_mode, jnp.tile(marks, num_prompts)[:, None], prompts), lengths + 1


def _logprobs(params, policy: Speaker, prompts, lengths):
  """[P * M] log-prob of the mode that ends each prompt, under the distribution of a first action."""
  first = policy.saying(max_tokens=1, min_tokens=min(policy.decoding.min_tokens, 1))
  ends = jnp.arange(prompts.shape[1])[None] == lengths[:, None] - 1
  rows = {'tokens': prompts, 'action_mask': ends, 'prompt_lengths': lengths - 1}
  logprobs, _ = engine.score(
      params, first.model, rows, decoding=first.decoding, chunk_size=prompts.shape[0]
  )
  return logprobs.sum(axis=1)


def as_action(batch: Batch, logprobs: jax.Array) -> Batch:
  """Rows in which the last token of each prompt is the first action, of log-probs [B]."""
  lengths = batch['prompt_lengths'] - 1
  is_mode = jnp.arange(batch['tokens'].shape[1])[None] == lengths[:, None]
  return {
      **batch, 'prompt_lengths': lengths, 'action_mask': batch['action_mask'] | is_mode,
      'turns': jnp.where(is_mode, 0, batch['turns']),
      'sampler_logprobs': jnp.where(is_mode, logprobs[:, None], batch['sampler_logprobs']),
  }
