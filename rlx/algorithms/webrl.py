"""WebRL: turns regress on what a KL-constrained policy would say of them, and old successes only if familiar.

    L = mean over turns of (β log π(a_k | s_k) / π_ref(a_k | s_k) - A_k)²
    A_k = λ (V_{k+1} - V_k) + (1 - λ) (R - V_k),   V behind the last turn: R

log π(a_k) is that of all tokens of the turn. Where the loss is least, π is π_ref exp(A / β): the policy that
earns most at a KL of its own from the reference, which is the policy of the phase before. No ratio to the
sampler is in it, so that episodes of other policies teach as well. Of those that are `reused` only successes
count, and only where the actor's perplexity, exp(-mean log π) over their tokens, lies between two bounds:
what it knows by heart adds nothing, what it would never say pulls it away. V learns the outcome by its
cross-entropy, and is read through a sigmoid.

Source: Qi et al., 2024, https://arxiv.org/abs/2411.02337 (policy update and actor perplexity); letters, and
what is done behind the last turn, are ours.
"""

import jax
import jax.numpy as jnp
import optax

from rlx import reductions
from rlx.advantages import segments, turns
from rlx.engine.speaker import Critic, Speaker
from rlx.metrics import describe_policy
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout
from rlx.unscored import scored_rows


def webrl(
    rollout: Rollout, reward: Annotate, policy: Speaker, value: Critic, reference: Speaker, *, beta: float,
    lambda_: float, value_coef: float, perplexity_min: float, perplexity_max: float,
) -> Algorithm:
  """An actor-critic under a KL constraint; trains `models['policy']` and `models['value']`.

  Args:
    rollout: yields rows with `turns`, one an episode; some may be `reused`, as those of `reuse.with_past`.
    reward: adds `rewards` [B] in [0, 1]: outcomes, or what a model thinks of them.
    policy: scores rows.
    value: the critic, read before each turn.
    reference: scores rows; holds the policy.
    beta: β, above 0; less of it lets the policy go further.
    lambda_: λ, in [0, 1]; 0 for the outcome alone.
    value_coef: weight of the critic's loss, a mean over turns.
    perplexity_min: of reused rows that count, at least 1.
    perplexity_max: no less than `perplexity_min`.
  """

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    steps = segments.steps(batch['turns'], batch['action_mask'])
    counts = segments.firsts(steps)
    if 'reused' in batch:
      logprobs, _ = policy.score(models['policy'], batch)
      known = is_familiar(logprobs, batch['action_mask'], low=perplexity_min, high=perplexity_max)
      wanted = ~batch['reused'] | (known & (batch['rewards'] > 0.5))
      counts &= wanted[:, None]
    values = jax.nn.sigmoid(value.apply(models['value'], batch))
    reference_logprobs, _ = reference.score(models['reference'], batch)
    return {
        **batch,
        'advantages': outcome_advantages(
            batch['rewards'], values, batch['turns'], batch['action_mask'], lambda_=lambda_
        ),
        'outcomes': jnp.where(scored_rows(batch), batch['rewards'], 0),
        'reference_turns': segments.segment_sum(reference_logprobs, steps),
        'weights': reductions.token_mean(counts),  # at the first token of each turn
    }

  def loss(models: Models, batch: Batch, key: Key):
    del key
    logprobs, entropy = policy.score(models['policy'], batch)
    steps = segments.steps(batch['turns'], batch['action_mask'])
    log_ratios = segments.segment_sum(logprobs, steps) - batch['reference_turns']
    missed = jnp.square(beta * log_ratios - batch['advantages'])
    policy_loss = reductions.weighted_mean(missed, batch['weights'])
    said = value.apply(models['value'], batch)
    outcomes = jnp.broadcast_to(batch['outcomes'][:, None], said.shape)
    value_loss = reductions.weighted_mean(
        optax.sigmoid_binary_cross_entropy(said, outcomes), batch['weights']
    )
    metrics = {
        'loss/policy': policy_loss, 'loss/value': value_loss,
        'policy/from_reference': reductions.weighted_mean(log_ratios, batch['weights']),
        **describe_policy(batch, logprobs, entropy),
    }
    return policy_loss + value_coef * value_loss, metrics

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)


def outcome_advantages(
    outcomes: jax.Array, values: jax.Array, numbers: jax.Array, mask: jax.Array, *, lambda_: float
) -> jax.Array:
  """What each turn added to the chance of success, and what became of it, [B, T] at all of its tokens.

  Args:
    outcomes: [B] R, in [0, 1].
    values: [B, T] V before each token; read before the first of each turn.
    numbers: [B, T] int32, the turn of each token.
    mask: [B, T] bool, True at actions.
    lambda_: λ.
  """
  steps = segments.steps(numbers, mask)
  first = segments.firsts(steps)
  before = segments.broadcast(values, steps)
  spots = lambda x: turns.at_turns(x, numbers, first, num_turns=numbers.shape[1])
  there, of_turns = spots(jnp.ones_like(values)) > 0, spots(values)
  shift = lambda x: jnp.pad(x[:, 1:], ((0, 0), (0, 1)))
  following = turns.spread(jnp.where(shift(there), shift(of_turns), outcomes[:, None]), numbers, mask)
  rest = outcomes[:, None] - before
  return jnp.where(mask, lambda_ * (following - before) + (1 - lambda_) * rest, 0)


def is_familiar(logprobs: jax.Array, mask: jax.Array, *, low: float, high: float) -> jax.Array:
  """[B] bool: whether the perplexity of what was said in rows [B, T] lies in [low, high]."""
  mean = jnp.where(mask, logprobs, 0).sum(axis=1) / jnp.maximum(mask.sum(axis=1), 1)
  perplexity = jnp.exp(-mean)
  return (perplexity >= low) & (perplexity <= high)
