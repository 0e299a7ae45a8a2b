"""A process head learns labels of steps: its numbers are the log-odds that a row is still right there.

    L = mean over steps of  -y log σ(v) - (1 - y) log σ(-v),   v behind the last token of the step

Labels y are 0 and 1, or shares in between. Where `pointwise` learns one verdict on a whole row, this learns
one on each of its steps, whoever says it: completions (`rollout.labelled_steps.by_completions`), the outcome
alone (`by_outcome`), people.

Source: Lightman et al., 2023, https://arxiv.org/abs/2305.20050, and Math-Shepherd,
https://arxiv.org/abs/2312.08935, eq. 2, both with a word of the vocabulary in the place of the head.
"""

import jax.numpy as jnp
import optax

from rlx import reductions
from rlx.engine.speaker import Critic
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def stepwise(rollout: Rollout, process: Critic) -> Algorithm:
  """Trains `models['process']` on labels of steps.

  Args:
    rollout: yields rows with `step_ends` and `step_labels` [B, T].
    process: says a number of every place, such as `heads.value_head`.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    return {**batch, 'weights': reductions.token_mean(batch['step_ends'])}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    odds, labels = process.behind(models['process'], batch), batch['step_labels']
    value = mean(optax.sigmoid_binary_cross_entropy(odds, labels))
    right = ((odds > 0) == (labels > 0.5)).astype(jnp.float32)
    return value, {'loss/steps': value, 'process/right': mean(right), 'process/mean': mean(odds)}

  return Algorithm(rollout=rollout, advantage=advantage, loss=loss)
