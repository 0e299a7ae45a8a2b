"""DPO: learning from comparisons without a reward model; what a comparison costs is a part.

    L = mean over pairs of  w · loss(h_w, h_l),    h = f'( level over tokens of log π(y_t) - log ref(y_t) )

With `preference.sigmoid`, summed over tokens and with the reverse KL, this is DPO. The table in
`losses/preference.py` says which other methods are a choice of `loss`; `level`, `divergence` and `weight` are
those of `losses/comparisons.py`. At the reference every h is 0, and DPO's loss log 2.

A comparison is two rows, the better answer before the worse one, and is never parted. What is no sum over
rows (δ of BCO, the orders of AOT) is found in the whole minibatch before it is cut.
Source: Rafailov et al., 2023, https://arxiv.org/abs/2305.18290, eq. 7.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.losses import comparisons
from rlx.models.score_table import StoredScores
from rlx.names import fill
from rlx.types import Algorithm, Batch, Key, Metrics, Models, Rollout


def dpo(
    rollout: Rollout,
    policy: Speaker,
    reference: Speaker | StoredScores,
    *,
    loss: Callable,
    level: Callable = comparisons.summed,
    divergence: Callable = comparisons.reverse_kl,
    weight: Callable = comparisons.even,
) -> Algorithm:
  """Direct preference optimisation, with any loss of comparisons.

  Args:
    rollout: yields pairs as rows behind one another, the better one first; `weights` [2N] say which count,
      where they are there.
    policy: scores rows; its parameters are trained.
    reference: scores them once a batch: `models['reference']`; of a LoRA its base, by
      `names: {'reference': 'base'}`. One of `run/stored.py` is looked up.
    loss: of each pair, [N]; asks for what it needs by name.
    level: makes the log-ratio of an answer of those of its tokens.
    divergence: by which the policy is held to the reference.
    weight: of each pair, [N], without gradient, with the parameters before the update.
  """

  def annotate(models: Models, batch: Batch) -> Batch:
    return {**batch, 'reference_logprobs': reference.score(models['reference'], batch)[0]}

  return compared(rollout, policy, annotate, loss=loss, level=level, divergence=divergence, weight=weight)


def compared(
    rollout: Rollout, policy: Speaker, annotate: Callable[[Models, Batch], Batch], *, loss: Callable,
    level: Callable, divergence: Callable, weight: Callable,
) -> Algorithm:
  """A method that learns from comparisons; arguments as for `dpo`.

  Args:
    annotate: adds `reference_logprobs` [2N, T].
  """
  pair_loss, wanted = loss, comparisons.asked(loss) & comparisons.SURVEYED
  how = {'level': level, 'divergence': divergence}

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    return {**annotate(models, batch), 'weights': shares(batch)}

  def survey(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    if weight is not comparisons.even:
      batch = {**batch, 'weights': batch['weights'] * _weights(models, batch)}
    if not wanted:
      return batch
    logprobs, _ = policy.score(models['policy'], batch)
    found = comparisons.known(batch, logprobs, batch['reference_logprobs'], **how)
    of_reference = comparisons.summed(batch['reference_logprobs'], batch['action_mask'])
    margin = jnp.subtract(*comparisons.sides(of_reference))
    return {**batch, **comparisons.survey(found, margin, wanted)}

  def _weights(models: Models, batch: Batch) -> jax.Array:
    logprobs, collision = policy.collisions(models['policy'], batch)
    pairs = fill(weight, {'logprobs': logprobs, 'collision': collision, 'mask': batch['action_mask']})
    return jnp.repeat(pairs, 2)

  def loss_of(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, Metrics]:
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    found = comparisons.known(batch, logprobs, batch['reference_logprobs'], **how)
    values, counts = fill(pair_loss, {**found, 'known': found}), comparisons.sides(batch['weights'])[0]
    mean = lambda x: jnp.mean(jnp.where(counts != 0, x, 0) * counts)
    total = mean(values)
    entropies = comparisons.averaged(entropy, batch['action_mask'])
    return total, {
        'loss/preference': total, **describe(found, mean),
        'policy/entropy': mean(sum(comparisons.sides(entropies)) / 2),
    }

  return Algorithm(rollout=rollout, advantage=advantage, survey=survey, loss=loss_of, together=2)


def shares(batch: Batch) -> jax.Array:
  """[2N] what each row weighs: with a mean over rows, the mean over those of `weights` that are not 0."""
  if 'weights' not in batch:
    return jnp.ones(len(batch['tokens']))
  return batch['weights'] * len(batch['weights']) / jnp.maximum(batch['weights'].sum(), 1)


def describe(found: Batch, mean: Callable[[jax.Array], jax.Array]) -> Metrics:
  """What pairs say of the policy: log-ratios in nats (TRL multiplies by β), and how often they are right."""
  chosen, rejected = found['chosen'], found['rejected']
  return {
      'preference/chosen': mean(chosen),
      'preference/rejected': mean(rejected),
      'preference/margin': mean(chosen - rejected),
      'preference/right': mean(comparisons.right(chosen, rejected)),
      'logprobs/chosen': mean(found['chosen_logprobs']),
      'logprobs/rejected': mean(found['rejected_logprobs']),
  }
