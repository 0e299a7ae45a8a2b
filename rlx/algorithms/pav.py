"""PAV: steps are rewarded for progress, which is what they change in a prover's chance to get there.

    A_t = r - mean(r) + α A^μ(step of t),    A^μ_k = V^μ(behind step k) - V^μ(in front of it)

V^μ is the share of right completions among those of the prover μ, another policy than the one that learns, or
the best of K of such: a prover that always succeeds or never does tells steps apart as little as the policy's
own outcome. The paper trains a model to predict A^μ; here it is sampled, which costs rows and needs no model.

Source: Setlur et al., 2024, https://arxiv.org/abs/2410.08146, eq. 5. The baseline of the outcome, and that
the answer behind the last step counts as a step, are our reading.
"""

import dataclasses

import jax.numpy as jnp

from rlx.advantages import groups, potentials
from rlx.algorithms.grpo import grpo
from rlx.engine.probe import success_of_cuts
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, one_token
from rlx.losses.anchors import Anchor
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def pav(
    rollout: Rollout,
    reward: Annotate,
    policy: Speaker,
    prover: Speaker,
    kl: Anchor,
    task: Task,
    *,
    clip_low: float,
    clip_high: float,
    separator: str,
    max_steps: int,
    prover_samples: int,
    best_of: int,
    alpha: float,
) -> Algorithm:
  """`grpo` without a scale, and with the prover's advantages.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`.
    reward: adds `rewards` [B], 0 or 1, as `task` verifies.
    policy: what learns.
    prover: μ, which finishes rows in its own way: `models['prover']`.
    kl: what holds the policy.
    task: verifies what the prover says, and says which token `separator` is.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    separator: one token, which ends a step.
    max_steps: so many steps are told apart; what is behind them is one more.
    prover_samples: completions of each prefix.
    best_of: K, so many completions of the prover count as one try; at most `prover_samples`.
    alpha: weight of progress (5 and 6 in the paper's training runs).
  Raises:
    ValueError: the separator is not one token, or K is more than the samples.
  """
  if not 1 <= best_of <= prover_samples:
    raise ValueError(f'best_of={best_of}: need 1 to prover_samples={prover_samples}')
  end_of_step = one_token(task, separator)
  parent = grpo(
      rollout, reward, policy, kl, clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0,
      baseline=groups.centred,
  )

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    tokens, mask = batch['tokens'], batch['action_mask']
    numbers = potentials.step_numbers(tokens, mask, end_of_step)
    cuts = potentials.step_cuts(numbers, max_steps)
    values = success_of_cuts(
        models['prover'], prover, task, batch, cuts, key, samples=prover_samples, best_of=best_of
    )
    # A row that is at its end is worth what it got: the prover adds nothing to it.
    outcome, counts = batch['rewards'][:, None], potentials.step_counts(tokens, mask, end_of_step)
    ended = jnp.arange(max_steps + 1)[None] > counts[:, None]
    values = jnp.concatenate([jnp.where(ended, outcome, values), outcome], axis=1)
    progress = potentials.at_steps(jnp.diff(values, axis=1), numbers)
    advantages = batch['advantages'] + alpha * progress
    return {**batch, 'advantages': advantages, 'prover/value': values[:, 0]}

  return dataclasses.replace(parent, advantage=advantage)
