"""CAPO: critiques of the steps vote; tokens of the steps that they flag are worth less than the outcome.

    R_t = w_outcome r - w_process 1[t in a flagged step]
    A_t = (R_t - mean(R)) / std(R)                             over the tokens of the group

Source: Xie et al., 2025, https://arxiv.org/abs/2508.02298 (R_t); that mean and deviation are those of all
tokens of the group is our reading. A critique is whatever flags steps: a function, or a model that is asked
(`asked_critic`). The paper's critic is asked once about all steps of a row, here once a step.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import potentials, segments
from rlx.algorithms.grpo import grpo
from rlx.engine.probe import prefix_probe
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, one_token
from rlx.losses.anchors import Anchor
from rlx.rewards.verifier import verifier
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def capo(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    kl: Anchor,
    *,
    clip_low: float,
    clip_high: float,
    outcome_weight: float,
    process_weight: float,
    min_votes: int,
) -> Algorithm:
  """`grpo` with rewards of tokens.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B] and `critiques` [B, V, T] bool, True in steps that a critique flags.
    policy: what learns.
    kl: what holds the policy.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    outcome_weight: of the outcome; above `process_weight`, a right row is never worth less than a wrong one.
    process_weight: of a flag.
    min_votes: how many of the V critiques must flag a step: V for their intersection, V // 2 + 1 for the
      majority.
  """
  parent = grpo(
      rollout, reward, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0,
      reduction=reductions.token_mean,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    flagged = vote(batch['critiques'], min_votes=min_votes)
    rewards = outcome_weight * batch['rewards'][:, None] - process_weight * flagged
    each, group = segments.tokens(batch['action_mask']), batch['groups'][:, None]
    advantages = segments.term(
        rewards, each, baseline=segments.key_mean(rewards, each, group),
        scale=segments.key_deviation(rewards, each, group) + 1e-6,
    )
    share = flagged.sum(axis=1) / jnp.maximum(batch['action_mask'].sum(axis=1), 1)
    return {**batch, 'advantages': advantages, 'critic/flagged': share}

  return dataclasses.replace(parent, advantage=advantage)


def vote(critiques: jax.Array, *, min_votes: int) -> jax.Array:
  """[B, T] bool: where at least `min_votes` of the critiques [B, V, T] flag the token.

  Raises:
    ValueError: there are fewer critiques than that, or none is asked for.
  """
  if not 1 <= min_votes <= critiques.shape[1]:
    raise ValueError(f'min_votes={min_votes} of {critiques.shape[1]} critiques; need 1 to all of them')
  return critiques.sum(axis=1) >= min_votes


def asked_critic(
    task: Task,
    policy: Speaker,
    critic: Speaker,
    *,
    question: str,
    wrong: str,
    separator: str,
    max_steps: int,
    votes: int,
) -> Annotate:
  """The verifier's reward, and critiques by a model that is asked behind each step: is it right so far?

  Args:
    task: verifies, and says which tokens the texts are.
    policy: says how long completions can be.
    critic: who is asked, `models['critic']`; `names: {'critic': 'policy'}` asks the policy itself.
    question: what is put behind the step.
    wrong: one token, the answer that flags.
    separator: one token, which ends a step.
    max_steps: after so many it is asked; later steps are not flagged, nor is what stands behind the last.
    votes: answers to each question.
  Returns:
    A `reward` function that adds `rewards` [B] and `critiques` [B, votes, T].
  Raises:
    ValueError: `wrong` or `separator` is not one token.
  """
  outcome, asking = verifier(task, policy), jnp.asarray(task.encode(question))
  flag, end_of_step = one_token(task, wrong), one_token(task, separator)
  brief = critic.saying(max_tokens=1, min_tokens=0)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    batch = outcome(models, batch, key)
    tokens, mask = batch['tokens'], batch['action_mask']
    numbers = potentials.step_numbers(tokens, mask, end_of_step)
    cuts = potentials.step_cuts(numbers, max_steps)[:, 1:]
    said = prefix_probe(
        models['critic'], critic.model, batch, cuts, key, appended=asking, decoding=brief.decoding,
        samples=votes,
    )
    flags = jnp.moveaxis(said.tokens[..., 0] == flag, 2, 0)  # [V, B, N]
    counts = potentials.step_counts(tokens, mask, end_of_step)[:, None]
    asked = (numbers >= 0) & (numbers < jnp.minimum(counts, max_steps))
    flagged = jax.vmap(potentials.at_steps, (0, None), 1)(flags, numbers) == 1
    return {**batch, 'critiques': flagged & asked[:, None]}

  return reward
