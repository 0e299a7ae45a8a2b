"""CycleAlign: a policy learns the order that somebody else puts its answers into, and the best one by heart.

    L = Σ_{i better than j} max(0, s_j - s_i) - c log π(y_best),    s = log π(y|x) / |y|

Source: Hong et al., 2023, https://arxiv.org/abs/2310.16271, whose white-box model learns by RRHF
(https://arxiv.org/abs/2304.05302). The cycle, in which the ranker learns too, is `rewards/cycles.py`.
"""

import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.errors import at_least
from rlx.losses import comparisons, ranking
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def cycle_align(rollout: Rollout, policy: Speaker, *, group_size: int, nll_coef: float) -> Algorithm:
  """Ranking by likelihood.

  Args:
    rollout: yields ranked answers: those of a prompt behind one another, the best one first.
    policy: its parameters are trained.
    group_size: A, answers of a prompt, at least 2.
    nll_coef: c, at least 0 (1 in RRHF).
  """
  at_least(2, group_size=group_size)
  at_least(0, nll_coef=nll_coef)

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    mask = batch['action_mask']
    scores = comparisons.averaged(logprobs, mask).reshape(-1, group_size)
    order, nll = jnp.mean(ranking.rrhf(scores)), -jnp.mean(scores[:, 0])
    return order + nll_coef * nll, {
        'loss/order': order, 'loss/nll': nll, 'policy/entropy': jnp.mean(comparisons.averaged(entropy, mask)),
    }

  return Algorithm(rollout=rollout, loss=loss, together=group_size)
