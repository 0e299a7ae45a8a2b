"""The policy gradient in its parts: each is a function, any goes with any, and papers are choices among them.

    A_i = weight · baseline(r_i - β_r Σ_t log(π_old / ref), group)
    L = mean over tokens of [ correction · surrogate(level(π / π_old), A) + β KL(π || ref) - c H(π) ]

| part | asks | choices |
|---|---|---|
| `baseline` | what was to be expected? | `advantages/groups.py`, `advantages/segments.py` |
| `weight` | which rows count more? | `losses/weights.py` |
| `level` | over what is the ratio taken? | `losses/ratios.py`: token, sequence, turn |
| `surrogate` | what do a ratio and an advantage cost? | `losses/policy.py` |
| `reduction` | how are tokens averaged? | `reductions.py` |
| `kl_estimator` | how is the divergence in the loss estimated? | `losses/regularizers.py` |
| `correction` | is the sampler another policy? | `losses/corrections.py`, at a level of its own |

A part is called with what it asks for by the names of its parameters (`names.fill`): before the update there
are the columns of the batch, `mask`, `lengths`, `scored` and `key`; in the loss also `logprobs`,
`old_logprobs`, `entropy`, `ratios`. β and β_r are those of `kl`, which says where the policy is held, if it
is (`losses/anchors.py`). `presets.py` and `trees.py` hold what papers choose. What does not come apart this
way is a file of its own beside this one.
"""

from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups
from rlx.engine.speaker import Speaker
from rlx.losses import anchors, corrections, ratios, regularizers, weights
from rlx.losses.anchors import Anchor
from rlx.metrics import describe_idle, describe_policy
from rlx.names import fill
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def policy_gradient(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    baseline: Callable,
    weight: Callable,
    level: Callable,
    surrogate: Callable,
    reduction: Callable,
    kl_estimator: Callable,
    entropy_coef: float,
    correction: Callable,
    correction_level: Callable,
) -> Algorithm:
  """A policy-gradient method made of parts.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B].
    policy: scores rows; its parameters are trained.
    kl: what holds the policy to `models['reference']`, in the loss (β) or in the reward of the row (β_r);
      with `no_kl` there need not be one.
    baseline: gives advantages, [B] or [B, T].
    weight: gives weights of rows, [B], which multiply the advantages.
    level: gives ratios [B, T] of `logprobs` and `old_logprobs`.
    surrogate: gives the loss of each token, [B, T].
    reduction: gives the weights of tokens in the mean, [B, T].
    kl_estimator: gives the divergence of each token from `reference_logprobs`, [B, T], for the loss.
    entropy_coef: c, of the bonus.
    correction: gives factors [B, T] of the surrogate from the `ratios` π_old / π_sampler. With
      `corrections.none` π_old *is* the sampler; with any other it is the policy at the start of the update,
      which one more pass computes.
    correction_level: gives those ratios.
  Raises:
    ValueError: a part asks for something that there is not.
  """
  corrected = correction is not corrections.none

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    if kl.coef or kl.reward_coef:
      batch = kl.annotate(models, batch)
    mask = batch['action_mask']
    known = {
        **batch, 'mask': mask, 'lengths': mask.sum(axis=-1), 'key': key, 'scored': scored_rows(batch)
    }
    penalty = kl.reward_coef * anchors.sequence_kl(batch) if kl.reward_coef else 0
    advantages = fill(baseline, {**known, 'rewards': batch['rewards'] - penalty})
    if advantages.ndim == 1:
      advantages = advantages[:, None]
    batch = {
        **batch,
        'advantages': jnp.where(mask, advantages * fill(weight, known)[:, None], 0),
        'weights': fill(reduction, known),
    }
    return with_correction(models, batch, known) if corrected else batch

  def with_correction(models, batch, known):
    old_logprobs, _ = policy.score(models['policy'], batch)
    ratios = fill(
        correction_level,
        {**known, 'logprobs': old_logprobs, 'old_logprobs': batch['sampler_logprobs']},
    )
    factors = fill(correction, {**known, **batch, 'ratios': ratios})
    counted = batch['action_mask']
    return {
        **batch,
        'old_logprobs': old_logprobs,
        'corrections': jnp.where(counted, factors, 0).astype(jnp.float32),
        'correction/mean': jnp.mean(factors, axis=-1, where=counted),  # NaN in a row without an action
    }

  def loss(models: Models, batch: Batch, key: Key):
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    logprobs, entropy = policy.score(models['policy'], batch)
    known = {'old_logprobs': batch['sampler_logprobs'], **batch, 'mask': batch['action_mask'], 'key': key}

    def with_ratios(logprobs):
      known_now = {**known, 'logprobs': logprobs, 'entropy': entropy}
      return {**known_now, 'ratios': fill(level, known_now)}

    def surrogate_of(logprobs):
      x = fill(surrogate, with_ratios(logprobs))
      chex.assert_equal_shape([x, logprobs])
      return x * batch['corrections'] if corrected else x

    total = mean(surrogate_of(logprobs))
    slopes = jax.grad(lambda x: jnp.sum(surrogate_of(x)))(jax.lax.stop_gradient(logprobs))
    metrics = {
        'loss/policy': total,
        **describe_policy(batch, logprobs, entropy),
        **describe_idle(batch, slopes),
    }
    if kl.coef:
      divergence = mean(fill(kl_estimator, with_ratios(logprobs)))
      metrics['kl/reference'] = divergence
      total += kl.coef * divergence
    return total - entropy_coef * mean(entropy), metrics

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)


_NO_KL = anchors.no_kl()


def grpo_with(
    rollout: Rollout, reward: Annotate, policy: Speaker, kl: Anchor = _NO_KL, **parts
) -> Algorithm:
  """`policy_gradient` with the parts of GRPO where no other is given; the surrogate has to be."""
  of_grpo = dict(
      baseline=groups.normalised, weight=weights.equal, level=ratios.ratio,
      reduction=reductions.sequence_mean, kl_estimator=regularizers.kl_k3, entropy_coef=0.0,
      correction=corrections.none, correction_level=ratios.ratio,
  )
  return policy_gradient(rollout, reward, policy, kl, **{**of_grpo, **parts})
