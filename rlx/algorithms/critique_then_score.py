"""A reward model that writes a critique first: its words and the score behind them are learnt together.

    L = L_BT(r(x, y, c)) + λ mean over rows of  -1/|c| Σ_t log π(c_t | x, y, c_<t)

Critiques c are shown while it learns, and its own when it judges (`rewards/critiques.py`).
Source: MM-RLHF, https://arxiv.org/abs/2502.10391, critique-based reward model, from the abstract.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx.algorithms.bradley_terry import bradley_terry
from rlx.engine.speaker import Judge, Speaker
from rlx.errors import at_least
from rlx.losses import comparisons
from rlx.types import Algorithm, Batch, Key, Metrics, Models, Rollout


def critique_then_score(
    rollout: Rollout, critic: Speaker, judge: Judge, *, critique_coef: float, smoothing: float = 0.0,
    centring: float = 0.0,
) -> Algorithm:
  """Trains `models['critic']` on critiques and `models['judge']` on comparisons of rows with critiques.

  Rows go through the decoder once for the words and once for the score.

  Args:
    rollout: yields pairs as rows behind one another, the better one first, whose actions are critiques.
    critic: scores them.
    judge: reads the rows up to their last token; a `heads.shared_reward_head` stands on the critic.
    critique_coef: λ, at least 0; 0 learns no words.
    smoothing: as for `bradley_terry`.
    centring: likewise.
  """
  at_least(0, critique_coef=critique_coef)
  parent = bradley_terry(rollout, judge, smoothing=smoothing, centring=centring)

  def loss(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    value, metrics = parent.loss(models, batch, key)
    logprobs, _ = critic.score(models['critic'], batch)
    nll = jnp.mean(batch['weights'] * comparisons.averaged(-logprobs, batch['action_mask']))
    return value + critique_coef * nll, {**metrics, 'loss/critique': nll}

  return dataclasses.replace(parent, loss=loss)
