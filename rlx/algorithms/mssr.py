"""MSSR: one sample a prompt; a running success rate is its baseline, and uncertain tokens earn a little more.

    b = α / (α + β),    Â = (r - b - mean) / std over the batch,    A_t = Â + min(c H_t, |Â| / κ)
    afterwards   α ← ρ α + r,    β ← ρ β + 1 - r,    ρ = ρ_max - (ρ_max - ρ_min) min(D / D*, 1)

D is how far the policy has moved since it last met the prompt: KL(π_then || π), k3, of the completion that it
gave then. So the last completion of each problem is remembered, and scored once more when its turn comes. It
is `policy_gradient` with another baseline and the entropy term in the surrogate. The paper's task has images,
which nothing here needs.

Source: Liu et al., 2025, https://arxiv.org/abs/2512.18215. That D is measured on the last completion, the
linear ρ and its bounds are our reading.
"""

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.advantages import groups, running
from rlx.algorithms.policy_gradient import grpo_with
from rlx.controllers.memory import with_memory
from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.losses import entropy as entropy_control
from rlx.losses import policy as policy_losses
from rlx.losses import regularizers
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


class Seen(NamedTuple):
  """What is known of each of N problems: its success rate, and the last completion, in T columns."""

  rates: running.Beta
  tokens: jax.Array  # [N, T] int32
  actions: jax.Array  # [N, T] bool; none where the problem was not met yet
  logprobs: jax.Array  # [N, T] float32, as the sampler reported them


def mssr(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    task: Task | Dataset,
    *,
    num_problems: int,
    clip_low: float,
    clip_high: float,
    prior_rate: float,
    prior_strength: float,
    keep_low: float,
    keep_high: float,
    drift: float,
    entropy_scale: float,
    kappa: float,
) -> Algorithm:
  """Group-free policy optimisation with a shaped advantage.

  Args:
    rollout: yields rows of samples with `sampler_logprobs` and `rows`, the number of the problem of each; one
      sample a problem, as `curriculum` with as many prompts as rows.
    reward: adds `rewards` [B] in [0, 1].
    policy: scores rows; its parameters are trained. Its decoding says how long completions are.
    task: says how long prompts are.
    num_problems: N.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    prior_rate: success rate that is expected of a problem that was not met yet.
    prior_strength: samples that this is worth, above 0.
    keep_low: ρ_min, the share of the counts that stays where the policy has moved by `drift` or more.
    keep_high: ρ_max, where it has not moved.
    drift: D*, in nats a token.
    entropy_scale: c; 0 leaves the advantage as it is.
    kappa: κ, above 1: the term is at most |Â| / κ.
  Raises:
    ValueError: `keep_low`, `keep_high` and `drift` are no bounds, or another number is out of range.
  """
  if not 0 <= keep_low <= keep_high <= 1 or drift <= 0:
    raise ValueError(
        f'keep_low={keep_low}, keep_high={keep_high}, drift={drift}: need 0 <= low <= high <= 1, drift > 0'
    )
  columns = task.prompt_columns + policy.decoding.max_tokens

  def begin(key: Key) -> Seen:
    del key
    rates = running.beta_init(num_problems, value=prior_rate, strength=prior_strength)
    blank = lambda dtype: jnp.zeros((num_problems, columns), dtype)
    return Seen(rates, blank(jnp.int32), blank(bool), blank(jnp.float32))

  def annotate(seen: Seen, batch: Batch) -> Batch:
    rows = batch['rows']
    return {
        **batch,
        'baselines': running.beta_mean(seen.rates, rows),
        'last_tokens': seen.tokens[rows], 'last_actions': seen.actions[rows],
        'last_logprobs': seen.logprobs[rows],
    }

  def observe(seen: Seen, batch: Batch) -> Seen:
    rows = batch['rows']
    return Seen(
        running.beta_update(seen.rates, rows, batch['rewards'], keep=batch['kept']),
        seen.tokens.at[rows].set(batch['tokens']), seen.actions.at[rows].set(batch['action_mask']),
        seen.logprobs.at[rows].set(batch['sampler_logprobs']),
    )

  parent = grpo_with(
      with_memory(rollout, 'seen', begin=begin, annotate=annotate, observe=observe), reward, policy,
      baseline=_against_what_was_known,
      surrogate=functools.partial(
          _shaped, clip_low=clip_low, clip_high=clip_high, scale=entropy_scale, kappa=kappa
      ),
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    moved = _moved(models['policy'], batch, policy)
    kept = keep_high - (keep_high - keep_low) * jnp.minimum(moved / drift, 1)
    batch = {name: x for name, x in batch.items() if not name.startswith('last_')}
    return parent.advantage(models, {**batch, 'kept': kept, 'baseline/kept': kept}, key)

  return dataclasses.replace(parent, advantage=advantage)


def _against_what_was_known(rewards: jax.Array, baselines: jax.Array) -> jax.Array:
  return groups.globally_normalised(groups.against(rewards, baselines))


def _shaped(
    ratios: jax.Array, advantages: jax.Array, entropy: jax.Array, *, clip_low: float, clip_high: float,
    scale: float, kappa: float,
) -> jax.Array:
  shaped = entropy_control.shaped_advantages(advantages, entropy, scale=scale, kappa=kappa)
  return policy_losses.clipped(ratios, shaped, clip_low=clip_low, clip_high=clip_high)


def _moved(params, batch: Batch, policy: Speaker) -> jax.Array:
  """[B] D in nats a token, 0 where the problem was not met yet."""
  mask = batch['last_actions']
  prompt = jnp.arange(mask.shape[1])[None] < batch['prompt_lengths'][:, None]
  last = {**batch, 'tokens': batch['last_tokens'], 'action_mask': mask, 'valid': prompt | mask}
  now, _ = policy.score(params, last)
  apart = jnp.where(mask, regularizers.kl_k3(batch['last_logprobs'], now), 0)
  return apart.sum(axis=1) / jnp.maximum(mask.sum(axis=1), 1)
