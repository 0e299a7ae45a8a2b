"""Dead-end rectification: a small decoder learns how likely a row is to end badly, by Bellman backup.

    Q(s, a) <- -[bad]  where a ends the row,   V(s a) = Σ_a' p(a' | s a) Q(s a, a')  elsewhere

p is the policy, which stays as it is; so Q is minus the probability that a row of p which goes on with a ends
badly, and it caps the tokens of p where rows are drawn (`rollout/deadend.py`). An end is as bad as its reward
is below 1. The backup takes the expectation over the next token, so rows may come from anywhere: from the
policy, from the capped one, from a data set.

Source: Cao et al., 2023, https://arxiv.org/abs/2302.14003. Our reading: the mean over p in the backup (the
maximum would be 0 nearly everywhere, for some continuation nearly always ends well), and cross-entropy in
place of the squared error, which has the same minimum and does not die where the logistic function is flat.
"""

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.engine import stepwise
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.rollout import deadend as rectified
from rlx.types import Algorithm, Annotate, Batch, Key, Models, Rollout


def deadend(rollout: Rollout, reward: Annotate, policy: Speaker, rectifier: Speaker) -> Algorithm:
  """Trains `models['rectifier']` on what `models['policy']` may say; the policy is not trained.

  The metric `deadend/nll` is how unlikely rows are under the policy alone, in nats a token.

  Args:
    rollout: yields rows, such as `prompts.completions` or `rollout.deadend.completions`.
    reward: adds `rewards` [B] in [0, 1]; 1 is an end that is not bad at all.
    policy: p is what its decoding makes of it.
    rectifier: a decoder over the same vocabulary; it draws nothing, so its decoding does not matter.
  """

  decoding, learner = policy.decoding, rectifier.model

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    mask, length = batch['action_mask'], batch['tokens'].shape[1]
    logits = stepwise.base_logits(models['policy'], policy.model, batch, decoding=decoding)
    values = rectified.values(models['rectifier'], learner, batch, decoding=decoding)
    values = jnp.sum(jax.nn.softmax(logits) * values, axis=-1)  # V(s), before each action
    acts = window(mask, batch['prompt_lengths'], decoding.max_tokens)
    taken = window(batch['tokens'], batch['prompt_lengths'], decoding.max_tokens)
    logprobs = jnp.take_along_axis(jax.nn.log_softmax(logits), taken[..., None], axis=-1)[..., 0]
    unlikely = -jnp.mean(logprobs, axis=1, where=acts)
    returns = backup(values, batch['rewards'], acts)
    spread = lambda x: jnp.where(mask, window(x, -batch['prompt_lengths'], length), 0)
    batch = {**batch, 'values': spread(values), 'returns': spread(returns)}
    advantages = batch['returns'] - batch['values']  # not learned from: how each token changed the outlook
    weights = reductions.token_mean(mask)
    return {**batch, 'advantages': advantages, 'weights': weights, 'deadend/nll': unlikely}

  def loss(models: Models, batch: Batch, key: Key):
    del key
    hidden, _ = learner.forward(models['rectifier'], batch['tokens'])
    logits = learner.logits(models['rectifier'], hidden[:, :-1])
    taken = jnp.take_along_axis(logits, batch['tokens'][:, 1:, None], axis=-1)[..., 0]
    taken = jnp.pad(taken, ((0, 0), (1, 0)))
    bad = -batch['returns']
    cross_entropy = jax.nn.softplus(taken) - bad * taken
    mean = lambda x: reductions.weighted_mean(x, batch['weights'])
    total = mean(cross_entropy)
    found = mean(-jax.nn.sigmoid(taken))
    return total, {'loss/value': total, 'value/mean': found, 'value/target_mean': mean(batch['returns'])}

  return Algorithm(rollout=rollout, reward=reward, advantage=advantage, loss=loss)


def backup(values: jax.Array, rewards: jax.Array, mask: jax.Array) -> jax.Array:
  """Targets of Q: minus how bad the end is at the last action, V of what follows before it.

  Args:
    values: [B, N] V in [-1, 0] before action number n.
    rewards: [B] in [0, 1]; 1 is an end that is not bad at all.
    mask: [B, N] bool, True where a row has an action; contiguous from the first.
  Returns:
    [B, N] targets in [-1, 0]; zero where `mask` is False.
  """
  later = lambda x: jnp.pad(x[:, 1:], ((0, 0), (0, 1)))
  return jnp.where(mask, jnp.where(later(mask), later(values), rewards[:, None] - 1), 0)
