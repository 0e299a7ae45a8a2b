"""What a batch says about itself: the metrics that every algorithm shares."""

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups as group_advantages
from rlx.losses import policy, ratios, regularizers
from rlx.types import Batch, Metrics


def describe(batch: Batch) -> Metrics:
  """Scalars of a batch, from the standard keys that it holds; columns named `area/what` are averaged.

  Entries of such a column that are NaN say that it does not apply to the row, and are left out.

  Args:
    batch: rows after the advantage slot.
  Returns:
    Float32 scalars.
  """
  metrics = {name: jnp.nanmean(x.astype(jnp.float32)) for name, x in batch.items() if '/' in name}
  if 'rewards' in batch:
    metrics |= _describe_rewards(batch)
  if 'action_mask' in batch:
    lengths = batch['action_mask'].sum(axis=-1).astype(jnp.float32)
    known = jnp.where(batch['scored'], lengths, jnp.nan) if 'scored' in batch else lengths
    metrics |= {
        'tokens/actions': lengths.sum(),
        'tokens/response_mean': jnp.nanmean(known),
        'tokens/response_min': jnp.nanmin(known),
        'tokens/response_max': jnp.nanmax(known),
    }
  if 'truncated' in batch and 'action_mask' in batch:
    metrics['tokens/truncated_fraction'] = jnp.mean(batch['truncated'].astype(jnp.float32))
  return metrics


def _describe_rewards(batch: Batch) -> Metrics:
  """Of the rows that were scored, all of them unless the batch says otherwise; NaN where none was."""
  rewards = batch['rewards']
  scored = batch.get('scored', jnp.ones(rewards.shape, bool))
  mean = lambda x: jnp.mean(x, where=scored)
  centre = mean(rewards)
  metrics = {'reward/mean': centre, 'reward/std': jnp.sqrt(mean(jnp.square(rewards - centre)))}
  if 'scored' in batch:
    metrics['reward/unscored_fraction'] = 1 - jnp.mean(scored.astype(jnp.float32))
  if 'groups' in batch:
    informative = group_advantages.is_informative(rewards, batch['groups'])
    metrics['reward/zero_variance_fraction'] = 1 - mean(informative.astype(jnp.float32))
  return metrics


def describe_mismatch(batch: Batch, logprobs: jax.Array) -> Metrics:
  """How far the log-probs of training are from those of the sampler, for the same tokens.

  With the same parameters on both sides (the first update after sampling, which is the one that a train step
  reports) the difference is rounding: the decoding loop and the teacher-forced pass do their sums in another
  order. It should be of the order of 1e-6 in float32 and 1e-2 in bfloat16; more means that the two do not
  compute the same distribution, or that the batch is off policy (`rollout/policy_lag`).

  Args:
    batch: rows with `sampler_logprobs, weights`.
    logprobs: [B, T] of the actions under the trained policy.
  Returns:
    `mismatch/logprob_mean` and `_max`, absolute, in nats; `mismatch/kl`, KL(sampler || trainer) a token, by
    k3 of the sampler's tokens; `mismatch/effective_samples`, (Σ ρ)² / (n Σ ρ²) over the n actions of a row,
    averaged over rows: 1 where all importance ratios ρ are equal. `mismatch/chi_square`, E ρ² - 1 of tokens,
    and `.._row`, of the products of whole rows: χ²(trainer || sampler), the variance of importance weights.
    `mismatch/perplexity`, exp(-mean log π) of the sampler's rows under the trainer, and `.._ratio`, the mean
    of its ratio to that under the sampler: above 1 where the sampler is surer of its tokens than the trainer.
    (verl: `chi2_token`, `chi2_seq`, `training_ppl`, `ppl_ratio`.)
  """
  mean, mask = _mean_over_actions(batch), batch['weights'] != 0
  apart = jnp.where(mask, jnp.abs(ratios.log_ratio(logprobs, batch['sampler_logprobs'])), 0)
  ratio = jnp.where(mask, ratios.ratio(logprobs, batch['sampler_logprobs']), 0)
  squares = jnp.maximum(mask.sum(axis=-1), 1) * jnp.square(ratio).sum(axis=-1)
  effective = jnp.square(ratio.sum(axis=-1)) / jnp.maximum(squares, 1e-30)
  metrics = {
      'mismatch/logprob_mean': mean(apart),
      'mismatch/logprob_max': apart.max(),
      'mismatch/kl': mean(regularizers.kl_k3(batch['sampler_logprobs'], logprobs)),
      'mismatch/effective_samples': _mean_over_rows(mask)(effective),
  }
  return jax.tree.map(jax.lax.stop_gradient, {**metrics, **_describe_divergence(batch, logprobs)})


def _describe_divergence(batch: Batch, logprobs: jax.Array) -> Metrics:
  """χ²(trainer || sampler) and perplexities, from the sampler's tokens; equal policies have 0, 0 and 1."""
  mask = batch['weights'] != 0
  gaps = jnp.where(mask, ratios.log_ratio(logprobs, batch['sampler_logprobs']), 0)
  of_rows = _mean_over_rows(mask)
  return {
      'mismatch/chi_square': _mean_over_actions(batch)(jnp.square(ratios.held_exp(gaps)) - 1),
      'mismatch/chi_square_row': of_rows(jnp.square(ratios.held_exp(gaps.sum(axis=-1))) - 1),
      'mismatch/perplexity': of_rows(jnp.exp(-ratios.row_mean(logprobs, mask)[:, 0])),
      'mismatch/perplexity_ratio': of_rows(ratios.held_exp(-ratios.row_mean(gaps, mask)[:, 0])),
  }


def _mean_over_rows(mask: jax.Array):
  """The mean over the rows [B] that have an action that counts; 0 where none has, as other means."""
  counts = mask.any(axis=-1)
  return lambda x: jnp.sum(x, where=counts) / jnp.maximum(counts.sum(), 1)


def _mean_over_actions(batch: Batch):
  """The mean over each row's counted actions, then over rows; whatever the loss's own reduction is."""
  weights = reductions.sequence_mean(batch['weights'] != 0)
  return lambda x: reductions.weighted_mean(x, weights)


def describe_policy(batch: Batch, logprobs: jax.Array, entropy: jax.Array) -> Metrics:
  """Scalars of one update: entropy, and how far the policy is from the sampler's.

  `kl/old` is KL(sampler || policy) a token, by k3: the tokens are the sampler's, so it is of that, and not of
  the policy, that they can be a mean.

  Args:
    batch: rows with `sampler_logprobs, weights`.
    logprobs: [B, T] of the actions under the trained policy.
    entropy: [B, T] in nats.
  """
  mean = _mean_over_actions(batch)
  return {
      **describe_mismatch(batch, logprobs),
      'policy/entropy': mean(entropy),
      'kl/old': mean(regularizers.kl_k3(batch['sampler_logprobs'], logprobs)),
  }


def describe_idle(batch: Batch, slopes: jax.Array) -> Metrics:
  """The share of actions with an advantage that the loss has no gradient for, whatever the loss is.

  `policy/clipped_low` are those below what was expected, `policy/clipped_high` those above it; with the
  clipped surrogate of token ratios the same as in `describe_update`.

  Args:
    batch: rows with `advantages, weights`.
    slopes: [B, T] of the surrogate by log-probs.
  """
  mean, advantages = _mean_over_actions(batch), batch['advantages']
  return {
      'policy/clipped_low': mean((slopes == 0) & (advantages < 0)),
      'policy/clipped_high': mean((slopes == 0) & (advantages > 0)),
  }


def describe_update(
    batch: Batch, logprobs: jax.Array, entropy: jax.Array, *, clip_low: float, clip_high: float
) -> Metrics:
  """`describe_policy`, and how much was clipped.

  Args:
    batch: rows with `sampler_logprobs, advantages, weights`.
    logprobs: [B, T] of the actions under the trained policy.
    entropy: [B, T] in nats.
    clip_low: a token counts as clipped below 1 - clip_low where its advantage is negative,
    clip_high: and above 1 + clip_high where it is positive.
  """
  mean = _mean_over_actions(batch)
  low, high = policy.is_clipped(
      logprobs, batch['sampler_logprobs'], batch['advantages'], clip_low=clip_low, clip_high=clip_high
  )
  return {
      **describe_policy(batch, logprobs, entropy),
      'policy/clipped_low': mean(low),
      'policy/clipped_high': mean(high),
  }
