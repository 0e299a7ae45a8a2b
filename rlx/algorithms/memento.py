"""Memento: a frozen policy with cases in its prompt, and a learnt value of which case to take.

    L = mean over episodes with a case of  -[r log Q(s, c) + (1 - r) log(1 - Q(s, c))]

The bank grows in the rollout (`rollout/cases.py`); Q is all that is trained. A retrieval is one step, whose
return is that of the episode, so that soft Q-learning has no bootstrap, and is this cross-entropy.

Source: AgentFly (Memento), https://arxiv.org/abs/2508.16153, its parametric memory.
"""

import jax
import jax.numpy as jnp

from rlx.models.networks import Network
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def memento(rollout: Rollout, reward: Annotate, case_value: Network) -> Algorithm:
  """Trains `models['case_value']` on what episodes came to.

  Args:
    rollout: yields rows with `case_features` [B, P + 1] and `case_used` [B], as `episodes_with_cases`.
    reward: adds `rewards` [B] in [0, 1].
    case_value: Q(state, case), in log-odds.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    used = (batch['case_used'] & scored_rows(batch)).astype(jnp.float32)
    return {**batch, 'weights': used * used.shape[0] / jnp.maximum(used.sum(), 1)}  # a mean over rows

  def loss(models: Models, batch: Batch, key: Key):
    del key
    odds = case_value.apply(models['case_value'], batch['case_features'])
    paid = jnp.nan_to_num(batch['rewards'])  # where there is none, the weight is 0
    value = jnp.mean(batch['weights'] * (jax.nn.softplus(odds) - paid * odds))
    return value, {'loss/cases': value, 'cases/expected': jnp.mean(jax.nn.sigmoid(odds))}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
