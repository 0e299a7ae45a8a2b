"""GVM-RAFT: imitate the accepted samples; prompts get as many as make the gradient's variance least.

    L = -1/P Σ_p 1/(n_p p̂_p) Σ_{accepted i} log π(y_i),    p̂_p = accepted / n_p

Every prompt pulls alike, however often it is solved: the sum over its accepted samples is over their number.
How many samples a prompt gets (`controllers/allocation.gvm`, n ∝ G / √p) is asked of the rollout
(`rollout/curriculum.py`); this file measures G, the norm of the gradient of an accepted sample, and leaves it
in the column `gradient_norms`, from where the rollout's statistics take it.

Changed: the paper samples all prompts beforehand to measure p and G; here both are what training saw last.
The norms are those of whole rows, one backward pass a row: on large models that is as dear as the update.

Source: Yao et al., 2025, https://arxiv.org/abs/2505.02391, eq. 3 and algorithm 1; the authors' code.
"""

import jax
import jax.numpy as jnp
import optax

from rlx import reductions
from rlx.engine.speaker import Speaker
from rlx.losses import policy as policy_losses
from rlx.metrics import describe_policy
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def gvm(rollout: Rollout, reward: Annotate, policy: Speaker) -> Algorithm:
  """Rejection sampling with a budget that follows the variance; trains `models['policy']`.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, in groups of any size.
    reward: adds `rewards` [B]; above 0 is accepted.
    policy: scores rows; its parameters are trained.
  """

  def norms_of_rows(params, batch: Batch) -> jax.Array:
    def norm(row):
      row = {**jax.tree.map(lambda x: x[None], row), 'groups': jnp.zeros(1, jnp.int32)}  # a group of its own
      return optax.tree.norm(jax.grad(lambda params: policy.score(params, row)[0].sum())(params))

    return jax.lax.map(norm, batch)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    groups, mask = batch['groups'], batch['action_mask']
    in_group = lambda x: jax.ops.segment_sum(x.astype(jnp.float32), groups, num_segments=len(groups))[groups]
    accepted, scored = batch['rewards'] > 0, scored_rows(batch)
    num_accepted = in_group(accepted)
    sizes = jnp.maximum(in_group(scored), 1)
    num_prompts = jnp.maximum(jnp.sum(scored / sizes), 1)
    norms = norms_of_rows(models['policy'], batch)
    of_accepted = in_group(jnp.where(accepted, norms, 0)) / jnp.maximum(num_accepted, 1)
    return {
        **batch,
        'advantages': jnp.where(accepted, 1 / jnp.maximum(num_accepted, 1), 0)[:, None] * mask,
        'weights': reductions.sequence_sum(mask) * len(groups) / num_prompts,
        'gradient_norms': jnp.where(num_accepted > 0, of_accepted, in_group(norms) / sizes),
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    total = reductions.weighted_mean(policy_losses.reinforce(logprobs, batch['advantages']), batch['weights'])
    return total, {'loss/policy': total, **describe_policy(batch, logprobs, entropy)}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)
