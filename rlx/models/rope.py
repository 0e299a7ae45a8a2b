"""Rotary positions: how fast each pair of entries turns, and the turning.

The frequencies are plain NumPy, computed from numbers of the config and rounded to float32 at the end, where
transformers rounds at every step: the two differ in the last bit. The scalings stretch a model to contexts
longer than it was pretrained on. `slow_turns` and `fast_turns` mean the same in Llama 3 and YaRN: entries
that turn fewer times than the one over the original context are slowed down by `factor`, entries that turn
more often than the other are kept, and those between are blended.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

SCALINGS = ('none', 'linear', 'dynamic', 'llama3', 'yarn')


def frequencies(
    head_size: int,
    theta: float,
    *,
    scaling: str = 'none',
    factor: float = 1.0,
    original_context: int = 0,
    slow_turns: float = 0.0,
    fast_turns: float = 0.0,
    truncate: bool = True,
) -> np.ndarray:
  """Radians a position by which each of the H/2 pairs of entries turns: theta^(-2j/H), scaled.

  'dynamic' (NTK-aware) scaling is the identity within the original context, and only there does a row's
  meaning not depend on how long it will become; `TransformerConfig` refuses it for longer contexts.

  Args:
    head_size: H, even.
    theta: base wavelength.
    scaling: one of `SCALINGS`.
    factor: by which slow entries are slowed down.
    original_context: tokens, in pretraining.
    slow_turns: see the module.
    fast_turns: see the module.
    truncate: YaRN blends between whole indices.
  Returns:
    [H/2] float32.
  Source: Su et al., 2021, https://arxiv.org/abs/2104.09864, section 3.2.2; linear: Chen et al., 2023,
    https://arxiv.org/abs/2306.15595; YaRN: Peng et al., 2023, https://arxiv.org/abs/2309.00071, section 3.2;
    Llama 3.1: Grattafiori et al., 2024, https://arxiv.org/abs/2407.21783, as released with its weights.
  """
  plain = theta ** (-np.arange(0, head_size, 2) / head_size)
  if scaling in ('none', 'dynamic'):
    return plain.astype(np.float32)
  slowed = plain / factor
  if scaling == 'linear':
    return slowed.astype(np.float32)
  if scaling == 'llama3':
    turns = original_context * plain / (2 * math.pi)
    kept = (turns - slow_turns) / (fast_turns - slow_turns)
  else:
    index = lambda turns: (  # of the entry that turns so often
        head_size * math.log(original_context / (turns * 2 * math.pi)) / (2 * math.log(theta))
    )
    first, last = index(fast_turns), index(slow_turns)
    if truncate:
      first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, head_size - 1)
    width = (last - first) or 0.001  # a step, where nothing lies between
    kept = 1 - (np.arange(head_size // 2) - first) / width
  kept = np.clip(kept, 0, 1)
  return ((1 - kept) * slowed + kept * plain).astype(np.float32)


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
  """By how much YaRN stretches queries and keys: 0.1 mscale ln(factor) + 1. Source: YaRN, section 3.4."""
  return 0.1 * mscale * math.log(factor) + 1.0 if factor > 1 else 1.0


def rotate(x: jax.Array, positions: jax.Array, frequencies: jax.Array, scale: jax.Array) -> jax.Array:
  """Rotary positions in the half-split layout of Hugging Face checkpoints.

  Args:
    x: [B, T, K, H] queries or keys.
    positions: [B, T] int32.
    frequencies: [H/2] radians a position.
    scale: [] the result is multiplied by it.
  Source: Su et al., 2021, https://arxiv.org/abs/2104.09864, eq. 34.
  """
  half = x.shape[-1] // 2
  angles = positions[:, :, None, None].astype(jnp.float32) * frequencies[None, None, None]
  sin, cos = jnp.sin(angles) * scale, jnp.cos(angles) * scale
  first, second = x[..., :half].astype(jnp.float32), x[..., half:].astype(jnp.float32)
  rotated = jnp.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)
  return rotated.astype(x.dtype)
