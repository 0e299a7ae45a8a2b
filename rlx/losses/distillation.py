"""Learning what a teacher does, also from one that sees what its pupil does not.

Where both have logits, `regularizers.kl_forward` and `kl_exact` are exact. `teacher_kl` asks no more of two
policies than that one can be sampled and both say how likely an action is, so that it serves discrete and
continuous actions, and networks that see different parts of an observation (`models.views`).
"""

from typing import Any

import jax

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
