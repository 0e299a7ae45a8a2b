"""Two models about the same rows: a divergence of their whole distributions, without logits of all tokens.

Hidden states of both models are read once; logits are made for some tokens at a time, and again in the
backward pass, so that no array [B, T, V] is ever there.
"""

from collections.abc import Callable
import functools
from typing import Any

import jax
import jax.numpy as jnp

from rlx import sharding
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.types import Batch


def distances(
    policy: Speaker, params: Any, teacher: Speaker, teacher_params: Any, batch: Batch, *,
    divergence: Callable[[jax.Array, jax.Array], jax.Array],
) -> jax.Array:
  """How far two models are from each other before each action.

  Args:
    policy: its decoding's `max_tokens` says how many columns behind the prompt are compared, its temperature
      by what the logits of both are divided, and its scoring how many tokens have logits at a time.
    params: of the policy.
    teacher: the other one, with the same vocabulary.
    teacher_params: of the teacher; they get no gradient.
    batch: rows with `tokens, action_mask, prompt_lengths`.
    divergence: of logits [..., V] of the policy and of the teacher, [...].
  Returns:
    [B, T] float32; 0 where `action_mask` is False.
  Raises:
    ValueError: the vocabularies differ.
  """
  if policy.model.vocab_size != teacher.model.vocab_size:
    raise ValueError(
        f'the policy has {policy.model.vocab_size} tokens and the teacher {teacher.model.vocab_size}; '
        'distributions over different vocabularies cannot be compared'
    )
  rows = {name: batch[name] for name in ('tokens', 'action_mask', 'prompt_lengths')}
  read = functools.partial(_read, policy, teacher, divergence)
  held = jax.lax.stop_gradient(teacher_params)
  model = policy.model
  return sharding.over_rows(read, (params, held), rows, axes=model.axes, dtype=model.dtype)


def _read(policy, teacher, divergence, params, batch) -> jax.Array:
  """`distances` of rows that are together on a device."""
  columns, (num_rows, length) = policy.decoding.max_tokens, batch['tokens'].shape
  starts = batch['prompt_lengths']
  hidden = []
  for speaker, own in zip((policy, teacher), params, strict=True):
    states, _ = speaker.model.forward(own, batch['tokens'])
    hidden.append(window(states, starts - 1, columns).reshape(num_rows * columns, -1))
  chunk = min(policy.scoring.chunk_tokens, num_rows * columns)
  missing = -(num_rows * columns) % chunk
  parts = [jnp.pad(x, ((0, missing), (0, 0))).reshape(-1, chunk, x.shape[-1]) for x in hidden]
  temperature = policy.decoding.temperature or 1.0

  @jax.checkpoint
  def compared(part):
    mine, theirs = (
        speaker.model.logits(own, x) / temperature
        for speaker, own, x in zip((policy, teacher), params, part, strict=True)
    )
    return divergence(mine, theirs)

  found = jax.lax.map(compared, tuple(parts)).reshape(-1)[: num_rows * columns]
  spread = window(found.reshape(num_rows, columns), -starts, length)
  return jnp.where(batch['action_mask'], spread, 0)
