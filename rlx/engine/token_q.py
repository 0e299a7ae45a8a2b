"""A Q-function of tokens that is a language model and a critic: Q(s, a) = α (ℓ(s, a) - max ℓ(s, ·)) + V(s).

ℓ are the model's logits and V is the critic's value of the state, which is the value of the likeliest token.
So softmax(Q / α) is the model's own distribution, and argmax Q its likeliest token, whatever V says: a
Q-function that starts from a language model starts as good as that one is.

Source: the dueling initialisation of B-Coder, https://arxiv.org/abs/2310.03173.
"""

import jax
import jax.numpy as jnp

from rlx.engine.distances import at_actions, distances
from rlx.engine.speaker import Critic, Speaker
from rlx.types import Batch, Models


def supported(logits: jax.Array, *, support: float) -> jax.Array:
  """[..., V] bool, True for tokens that a model may well say.

  Args:
    logits: [..., V] of that model.
    support: the least chance, as a share of that of the likeliest token, in [0, 1]: with 0 it is every
      token, with 1 the likeliest alone.
  """
  chances = jax.nn.softmax(logits.astype(jnp.float32), axis=-1)
  return chances >= support * chances.max(axis=-1, keepdims=True)


def chosen_q(policy: Speaker, value: Critic, models: Models, batch: Batch, *, scale: float) -> jax.Array:
  """[B, T] float32: Q of the tokens that were said, with gradients; 0 where `action_mask` is False.

  Args:
    policy: the logits, of `models['policy']`.
    value: V, of `models['value']`.
    models: parameters.
    batch: rows with `tokens, action_mask, prompt_lengths`.
    scale: α.
  """
  below = at_actions((policy,), (models['policy'],), batch, read=_below)
  return jnp.where(batch['action_mask'], scale * below + value.apply(models['value'], batch), 0)


def best_q(
    policy: Speaker, behaviour: Speaker, value: Critic, models: Models, batch: Batch, *, scale: float,
    support: float,
) -> jax.Array:
  """[B, T] float32: the largest Q of a token that the behaviour supports, before each action; 0 elsewhere.

  Args:
    policy: as for `chosen_q`, like all that follows.
    behaviour: what the rows were drawn from, `models['behaviour']`.
    value: V.
    models: parameters.
    batch: rows.
    scale: α.
    support: as for `supported`.
  """
  lower = lambda mine, theirs: _within(mine, supported(theirs, support=support))
  below = distances(
      policy, models['policy'], behaviour, models['behaviour'], batch, divergence=lower
  )
  return jnp.where(batch['action_mask'], scale * below + value.apply(models['value'], batch), 0)


def _below(logits: jax.Array, said: jax.Array) -> jax.Array:
  """How far the logit of what was said is below the largest, at most 0."""
  logits = logits.astype(jnp.float32)
  return jnp.take_along_axis(logits, said[..., None], axis=-1)[..., 0] - logits.max(axis=-1)


def _within(mine: jax.Array, allowed: jax.Array) -> jax.Array:
  """How far the likeliest of the allowed tokens is below the likeliest of all, at most 0."""
  mine = mine.astype(jnp.float32)
  return jnp.where(allowed, mine, -jnp.inf).max(axis=-1) - mine.max(axis=-1)
