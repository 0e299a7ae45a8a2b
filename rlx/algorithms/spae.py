"""SPAE: the policy is asked for its answer after every step; steps are credited with what the answer gains.

    A_t = (r - mean(r)) f(Φ) + ξ g(Φ_k - Φ_k-1),    then (A - mean(A)) / std(A) over the batch's tokens
    Φ   = 1.5 Acc Conf + 0.5 Acc - Conf

Acc is the probability of the right answer's tokens behind the step, Conf what the entropy of the policy's own
short answers leaves of 1. f takes credit from steps behind the one that found the answer, so that checking
again stops paying; g is large where the answer is found. No KL and a mean over tokens, as in DAPO, whose
sampling of more prompts is not part of it here.

Source: Wu et al., 2026, https://arxiv.org/abs/2601.03823. Our reading: the policy is also asked before the
first step, and what stands behind the last step is no step (f = 1, g = 0), so that ending keeps its credit.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import groups, potentials, temporal
from rlx.algorithms.grpo import grpo
from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine.probe import cut_rows
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, one_token
from rlx.losses.anchors import no_kl
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def spae(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    task: Task | Dataset,
    *,
    clip_low: float,
    clip_high: float,
    separator: str,
    probe: str,
    probe_tokens: int,
    probe_samples: int,
    max_steps: int,
    saturated: float,
    alpha: float,
    xi: float,
) -> Algorithm:
  """`grpo` with step potentials.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`, and the right `answers` [B, A], padded tokens.
    reward: adds `rewards` [B].
    policy: what learns; probes have its temperature and filters.
    task: says which tokens `separator` and `probe` are.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    separator: one token, which ends a step ('.\\n\\n' in the paper).
    probe: what asks for the answer ('**Final Answer** \\boxed{' in the paper).
    probe_tokens: the longest answer of a probe (10 in the paper), at least A.
    probe_samples: answers for the entropy (5 in the paper).
    max_steps: after so many steps the policy is asked; later ones change nothing.
    saturated: the potential from which the answer counts as found.
    alpha: what a step behind that loses at most (0.5 in the paper).
    xi: ξ, weight of the potential's difference (0.5 in the paper).
  Raises:
    ValueError: the separator is not one token.
  """
  end_of_step, asking = one_token(task, separator), jnp.asarray(task.encode(probe))
  probing = policy.saying(max_tokens=probe_tokens, min_tokens=0)
  parent = grpo(
      rollout, reward, policy, no_kl(), clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0,
      baseline=groups.centred, reduction=reductions.token_mean,
  )

  def potentials_of(params, batch: Batch, cuts: jax.Array, key: Key) -> jax.Array:
    prompts, lengths = cut_rows(batch, cuts, asking)
    ask = lambda rows: engine.score(
        params, policy.model, rows, decoding=probing.decoding, chunk_size=policy.scoring.chunk_tokens
    )
    said = probing.sample(params, prompts, lengths, key, group_size=probe_samples)
    confidence = jnp.exp(-_mean_over_actions(ask(said)[1], said)).reshape(-1, probe_samples).mean(axis=1)
    answers = jnp.repeat(batch['answers'], cuts.shape[1], axis=0)
    counts = jnp.sum(answers != policy.decoding.pad_id, axis=1)
    answers = jnp.pad(answers, ((0, 0), (0, probe_tokens - answers.shape[1])))
    told = engine.as_rows(prompts, lengths, 1, answers, jnp.zeros(answers.shape), counts, probing.decoding)
    correctness = _mean_over_actions(jnp.exp(ask(told)[0]), told)
    return potentials.step_potential(correctness, confidence).reshape(cuts.shape)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    tokens, mask = batch['tokens'], batch['action_mask']
    numbers = potentials.step_numbers(tokens, mask, end_of_step)
    found = potentials_of(models['policy'], batch, potentials.step_cuts(numbers, max_steps), key)
    counts = potentials.step_counts(tokens, mask, end_of_step)[:, None]
    how = dict(saturated=saturated, alpha=alpha, xi=xi)
    advantages = shaped(batch['advantages'], found, numbers, mask & (numbers < counts), **how)
    advantages = temporal.whiten(advantages, mask)
    last = jnp.take_along_axis(found, jnp.minimum(counts, max_steps), axis=1)[:, 0]
    return {**batch, 'advantages': advantages, 'probe/potential': last}

  return dataclasses.replace(parent, advantage=advantage)


def shaped(
    advantages: jax.Array, found: jax.Array, numbers: jax.Array, in_step: jax.Array, *, saturated: float,
    alpha: float, xi: float,
) -> jax.Array:
  """A f(Φ) + ξ g(ΔΦ) in steps, A behind them.

  Args:
    advantages: [B, T] of the outcome.
    found: [B, N + 1] potentials before the first step and behind each.
    numbers: [B, T] of `potentials.step_numbers`.
    in_step: [B, T] bool, False at the answer and outside actions.
    saturated: as above.
    alpha: as above.
    xi: as above.
  Returns:
    [B, T] float32, before they are normalised over the batch.
  """
  discounts = potentials.saturation_discount(found[:, 1:], threshold=saturated, alpha=alpha)
  differences = jnp.pad(jnp.diff(found, axis=1), ((0, 0), (0, 1)))  # nothing changes behind the last one
  gains = potentials.exponential_gain(potentials.at_steps(differences, numbers), in_step)
  inside = advantages * potentials.at_steps(discounts, numbers) + xi * gains
  return jnp.where(in_step, inside, advantages)


def _mean_over_actions(x, rows):
  mask = rows['action_mask']
  return jnp.sum(x, axis=1, where=mask) / jnp.maximum(mask.sum(axis=1), 1)
