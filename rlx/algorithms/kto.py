"""KTO: learning from single answers that are labelled good or bad.

    L = mean over rows of  λ_D (1 - σ(β (h - z))) where good,  λ_U (1 - σ(β (z - h))) where bad
    z = max(0, mean over rows i of log π(y_j | x_i) / ref(y_j | x_i)),  y_j an answer to another prompt

z is how far the policy is from its reference where the data are not; it is found in the whole minibatch,
without gradient, before it is cut. TRL has the same estimate, of the neighbours in each device's batch. Where
z is 0 and λ are 1, pairs cost half of what they do with `preference.apo_zero`.
Source: Ethayarajh et al., 2024, https://arxiv.org/abs/2402.01306, eq. 7 and 8.
"""

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.losses import comparisons, ranking
from rlx.types import Algorithm, Batch, Key, Models, Rollout

_APART = 2  # rows: the answers of a pair stand behind one another, and have the same prompt


def kto(
    rollout: Rollout, policy: Speaker, reference: Speaker, task: Dataset | Task, *, beta: float,
    desirable: float, undesirable: float,
) -> Algorithm:
  """Kahneman-Tversky optimisation.

  Args:
    rollout: yields rows with `preferred` [B], True for the good ones; pairs do as well.
    policy: scores rows; its parameters are trained.
    reference: scores them once a batch: `models['reference']`; of a LoRA its base.
    task: says how long prompts and answers are.
    beta: β, above 0.
    desirable: λ_D.
    undesirable: λ_U; λ_D n_D / (λ_U n_U) is to be in [1, 4/3], by the paper.
  """
  width = task.prompt_columns + task.action_columns

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    good = batch['preferred'].astype(jnp.float32)
    share = lambda x: x / jnp.maximum(x.mean(), 1e-6)
    return {
        **batch, 'reference_logprobs': reference.score(models['reference'], batch)[0],
        'good_shares': share(good), 'bad_shares': share(1 - good),
    }

  def survey(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    rows = mismatched(batch, width)
    sums = [
        comparisons.summed(model.score(models[name], rows)[0], rows['action_mask'])
        for name, model in (('policy', policy), ('reference', reference))
    ]
    kl = jnp.maximum(jnp.mean(sums[0] - sums[1]), 0)
    return {**batch, 'kl': jnp.full(len(batch['tokens']), jax.lax.stop_gradient(kl))}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    mask = batch['action_mask']
    ratios = comparisons.summed(logprobs - batch['reference_logprobs'], mask)
    values = ranking.kto(
        ratios, batch['preferred'], batch['kl'], beta=beta, desirable=desirable, undesirable=undesirable
    )
    mean = lambda x, name: jnp.mean(x * batch[name])
    good, bad = mean(ratios, 'good_shares'), mean(ratios, 'bad_shares')
    return jnp.mean(values), {
        'loss/preference': jnp.mean(values),
        'preference/chosen': good,
        'preference/rejected': bad,
        'preference/margin': good - bad,
        'kl/mismatched': jnp.mean(batch['kl']),
        'policy/entropy': jnp.mean(comparisons.averaged(entropy, mask)),
    }

  return Algorithm(rollout=rollout, advantage=advantage, survey=survey, loss=loss)


def mismatched(batch: Batch, width: int) -> Batch:
  """Rows in which each prompt has the answer to another one.

  Args:
    batch: rows [B, T]; with fewer than three, the answers are their own.
    width: columns that a prompt and any answer fit in.
  """
  names = ('tokens', 'action_mask', 'valid', 'prompt_lengths')
  answers = {name: jnp.roll(batch[name], _APART, axis=0) for name in names}
  columns = jnp.arange(width)[None]
  behind = columns - batch['prompt_lengths'][:, None]
  place = behind + answers['prompt_lengths'][:, None]
  last = batch['tokens'].shape[1] - 1
  at = lambda x, index: jnp.take_along_axis(x, jnp.clip(index, 0, last), axis=1)
  there = (behind >= 0) & (place <= last)
  columns = jnp.broadcast_to(columns, behind.shape)
  own = behind < 0
  return {
      'tokens': jnp.where(own, at(batch['tokens'], columns), at(answers['tokens'], place)),
      'action_mask': there & at(answers['action_mask'], place),
      'valid': own | (there & at(answers['valid'], place)),
      'prompt_lengths': batch['prompt_lengths'],
      'groups': jnp.arange(len(behind)),
  }
