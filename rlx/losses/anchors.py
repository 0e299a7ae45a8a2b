"""What holds a policy to another model: the KL to a reference, in the loss, in the reward, or not at all.

A policy-gradient method takes an `Anchor` as its part `kl`. Only `kl_in_loss` and `kl_in_reward` ask for a
reference, and score it with that model's own functions: it may have another shape than the policy, and where
nothing holds the policy (`no_kl`) there need not be one.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.errors import at_least
from rlx.losses import regularizers
from rlx.types import Batch, Models


@dataclasses.dataclass(frozen=True, kw_only=True)
class Anchor:
  """The divergence from a reference, and how much it counts.

  Attributes:
    coef: β in the loss; 0 where it is not there.
    reward_coef: β in the reward; 0 where it is not there.
    annotate: `(models, batch) -> batch` with `reference_logprobs`; as it was where nothing is held.
  """

  coef: float
  reward_coef: float
  annotate: Callable[[Models, Batch], Batch]


def no_kl() -> Anchor:
  """Nothing holds the policy."""
  return Anchor(coef=0.0, reward_coef=0.0, annotate=lambda models, batch: batch)


def kl_in_loss(reference, *, coef: float) -> Anchor:
  """+ β KL(π || ref), estimated token by token as the method says.

  Args:
    reference: scores rows: `models['reference']`, or another by `names: {'reference': ...}`.
    coef: β.
  """
  at_least(0, coef=coef)
  return Anchor(coef=coef, reward_coef=0.0, annotate=_scored(reference))


def kl_in_reward(reference, *, coef: float) -> Anchor:
  """- β log(π_sampler / ref) for each token, in the reward.

  Args:
    reference: as for `kl_in_loss`.
    coef: β.
  """
  at_least(0, coef=coef)
  return Anchor(coef=0.0, reward_coef=coef, annotate=_scored(reference))


def _scored(reference):
  return lambda models, batch: {
      **batch, 'reference_logprobs': reference.score(models['reference'], batch)[0]
  }


def token_kl(batch: Batch) -> jax.Array:
  """[B, T] log π_old - log ref of the sampled tokens, 0 elsewhere (k1: it belongs into the reward)."""
  kl = regularizers.kl_k1(batch['sampler_logprobs'], batch['reference_logprobs'])
  return jnp.where(batch['action_mask'], kl, 0)


def sequence_kl(batch: Batch) -> jax.Array:
  """[B] sums of `token_kl` over each row."""
  return token_kl(batch).sum(axis=-1)
