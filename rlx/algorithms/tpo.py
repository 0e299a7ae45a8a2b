"""TPO: three answers a row, in one stage from a base model: a better, a worse, and one to learn by heart.

    L = -log σ(β log π(y_w) - β log π(y_l)) - α log π(y_gold)

There is no reference and no stage of supervised learning before: the gold answer, which is better than both
others, holds the policy. With y_gold = y_w this is CPO with a sum in the place of a mean over tokens; with
α = 0 it is DPO with a reference that says nothing.

Source: Saeidi et al., 2024, https://arxiv.org/abs/2405.16681, eq. 5.
"""

import dataclasses
import functools

import jax.numpy as jnp

from rlx.algorithms.reference_free import reference_free
from rlx.engine.speaker import Speaker
from rlx.errors import at_least
from rlx.losses import comparisons, preference
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_GOLD = 'gold_'  # columns of the answer that is learnt by heart, at both rows of its pair


def tpo(rollout: Rollout, policy: Speaker, *, beta: float, nll_coef: float) -> Algorithm:
  """Triple preference optimisation.

  Args:
    rollout: yields pairs with `gold_tokens`, `gold_action_mask`, `gold_valid`, `gold_prompt_lengths`, a row
      of the gold answer at each row.
    policy: scores rows; its parameters are trained.
    beta: β, above 0.
    nll_coef: α, at least 0.
  """
  at_least(0, nll_coef=nll_coef)
  parent = reference_free(rollout, policy, loss=functools.partial(preference.sigmoid, beta=beta))

  def loss(models: Models, batch: Batch, key: Key):
    pairs, metrics = parent.loss(models, batch, key)
    rows = {name.removeprefix(_GOLD): x for name, x in batch.items() if name.startswith(_GOLD)}
    logprobs = comparisons.summed(policy.score(models['policy'], rows)[0], rows['action_mask'])
    nll = -jnp.mean(logprobs * batch['weights'])
    return pairs + nll_coef * nll, {**metrics, 'loss/nll': nll}

  return dataclasses.replace(parent, loss=loss)
