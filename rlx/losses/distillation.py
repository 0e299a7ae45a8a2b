"""Learning what a teacher does, also from one that sees what its pupil does not.

Where both have logits, `regularizers.kl_forward` and `kl_exact` are exact. `teacher_kl` asks no more of two
policies than that one can be sampled and both say how likely an action is, so that it serves discrete and
continuous actions, and networks that see different parts of an observation (`models.views`).
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp

from rlx.errors import between
from rlx.losses import regularizers
from rlx.losses.ratios import log_ratio
from rlx.models.networks import Policy
from rlx.types import Key


def teacher_kl(
    policy: Policy, params: Any, teacher: Policy, teacher_params: Any, observations: jax.Array, key: Key
) -> jax.Array:
  """log π_T(a | s) - log π(a | s), a ~ π_T(· | s): estimates KL(π_T || π) where the pupil has been.

  Its gradient is that of cloning an action of the teacher. With a teacher that sees more, what is learnt is
  the mean over all that may be behind an observation, which is not always the best that can be done by it.

  Args:
    policy: π, the pupil.
    params: of the pupil; these alone get a gradient.
    teacher: π_T.
    teacher_params: of the teacher.
    observations: [..., *O] that hold what either of them sees.
    key: of the teacher's actions.
  Returns:
    [...] float32, of either sign.
  """
  actions, logprobs = jax.lax.stop_gradient(teacher.sample(teacher_params, observations, key))
  return log_ratio(logprobs, policy.score(params, observations, actions)[0])


def generalised_jsd(logits: jax.Array, teacher_logits: jax.Array, *, share: float) -> jax.Array:
  """β KL(π_T || m) + (1 - β) KL(π || m), m = β π_T + (1 - β) π, of whole distributions.

  At the ends, where this is 0, the limit of it over β or 1 - β is meant: the forward KL(π_T || π) at 0, the
  reverse KL(π || π_T) at 1. Bounded by log 2 at 1/2.

  Args:
    logits: [..., V] of the pupil; -inf marks what it never says.
    teacher_logits: [..., V] of the teacher.
    share: β in [0, 1].
  Returns:
    [...] float32, at least 0.
  Source: Agarwal et al., 2023, https://arxiv.org/abs/2306.13649, section 2 (GKD); as TRL's `beta`.
  """
  between(0, 1, share=share)
  if share == 0:
    return regularizers.kl_forward(logits, teacher_logits)
  if share == 1:
    return regularizers.kl_exact(logits, teacher_logits)
  chex.assert_equal_shape([logits, teacher_logits])
  log_p, log_t = (jax.nn.log_softmax(x.astype(jnp.float32)) for x in (logits, teacher_logits))
  mixed = jnp.logaddexp(log_t + jnp.log(share), log_p + jnp.log1p(-share))
  return share * regularizers.kl_exact(log_t, mixed) + (1 - share) * regularizers.kl_exact(log_p, mixed)
