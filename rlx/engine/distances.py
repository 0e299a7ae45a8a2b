"""Whole distributions before each action, of one model or of two about the same rows: a divergence of theirs.

Hidden states of each model are read once; logits are made for some tokens at a time, and again in the
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
  held = jax.lax.stop_gradient(teacher_params)
  read = lambda mine, theirs, said: divergence(mine, theirs)
  return at_actions((policy, teacher), (params, held), batch, read=read)


def at_actions(
    speakers: tuple[Speaker, ...], params: tuple[Any, ...], batch: Batch, *, read: Callable[..., jax.Array]
) -> jax.Array:
  """What is read of the logits of some models before each action, and of the action itself.

  Args:
    speakers: as for `distances`; the first one says the columns, the temperature and the chunks.
    params: of each.
    batch: as for `distances`.
    read: `(logits [..., V] of each speaker.., said [...] int32) -> [...]`.
  Returns:
    [B, T] float32; 0 where `action_mask` is False.
  Raises:
    ValueError: the vocabularies differ.
  """
  first, *others = (speaker.model.vocab_size for speaker in speakers)
  if any(size != first for size in others):
    raise ValueError(
        f'the policy has {first} tokens and the teacher {others[0]}; distributions over different '
        'vocabularies cannot be compared'
    )
  rows = {name: batch[name] for name in ('tokens', 'action_mask', 'prompt_lengths')}
  model = speakers[0].model
  return sharding.over_rows(
      functools.partial(_read, speakers, read), params, rows, axes=model.axes, dtype=model.dtype
  )


def _read(speakers, read, params, batch) -> jax.Array:
  """`at_actions` of rows that are together on a device."""
  policy, starts = speakers[0], batch['prompt_lengths']
  columns, (num_rows, length) = policy.decoding.max_tokens, batch['tokens'].shape
  hidden = []
  for speaker, own in zip(speakers, params, strict=True):
    states, _ = speaker.model.forward(own, batch['tokens'])
    hidden.append(window(states, starts - 1, columns).reshape(num_rows * columns, -1))
  said = window(batch['tokens'], starts, columns).reshape(-1)
  chunk = min(policy.scoring.chunk_tokens, num_rows * columns)
  missing = -(num_rows * columns) % chunk
  parts = [jnp.pad(x, ((0, missing), (0, 0))).reshape(-1, chunk, x.shape[-1]) for x in hidden]
  said = jnp.pad(said, (0, missing)).reshape(-1, chunk)
  temperature = policy.decoding.temperature or 1.0

  @jax.checkpoint
  def found_in(part):
    states, said = part
    logits = [
        speaker.model.logits(own, x) / temperature
        for speaker, own, x in zip(speakers, params, states, strict=True)
    ]
    return read(*logits, said)

  found = jax.lax.map(found_in, (tuple(parts), said)).reshape(-1)[: num_rows * columns]
  spread = window(found.reshape(num_rows, columns), -starts, length)
  return jnp.where(batch['action_mask'], spread, 0)
