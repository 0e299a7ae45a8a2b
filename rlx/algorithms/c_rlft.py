"""C-RLFT: supervised learning from sources of unlike quality, each under its own mark, with its own weight.

    L = - Σ_i w(c_i) Σ_t log π(y_t | x, c_i, y_<t) / Σ_i |y_i|,    w(c) = exp(r_c / β)

A source is a class c with a reward r_c, which is all that is known of quality: nobody compares answers. The
optimum of E[r_c] - β KL(π || π_c), π_c the data of the class, is a regression with these weights. The prompt
says the class, and that of the best source is asked for in the end. With weights of 1 this is SFT on marked
prompts; what marks are is the task's (`envs/qualities.py`).

Source: Wang et al., 2023, https://arxiv.org/abs/2309.11235, eq. 6; weights of 1 and 0.1 in their code.
"""

from collections.abc import Sequence

import jax.numpy as jnp

from rlx.algorithms.sft import sft
from rlx.engine.speaker import Speaker
from rlx.errors import at_least
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def c_rlft(rollout: Rollout, policy: Speaker, *, class_weights: Sequence[float]) -> Algorithm:
  """`sft` whose rows weigh what their class does.

  Args:
    rollout: yields demonstrations with `classes` [B] int32.
    policy: scores rows; its parameters are trained.
    class_weights: w of each class, at least 0.
  """
  for weight in class_weights:
    at_least(0, class_weights=weight)
  parent = sft(rollout, policy)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    return {**batch, 'weights': batch['weights'] * jnp.asarray(class_weights)[batch['classes']][:, None]}

  return Algorithm(rollout=rollout, advantage=advantage, loss=parent.loss)
