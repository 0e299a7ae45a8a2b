"""Rectified sampling: no token is likelier than the chance that a row which goes on with it ends well.

A small decoder over the same vocabulary, the rectifier, says of every token a what will come of it: Q(s, a)
in [-1, 0], minus the probability that the row ends badly. The policy is asked for its distribution alone,

    p'(a | s) ~ min( p(a | s), 1 + Q(s, a) )

so that what is unlikely or harmless stays as it was. `algorithms/deadend.py` teaches the rectifier. Rows are
drawn from p' and `score` computes the log-probs of p' again, for training as for any other sampler.

Source: Cao et al., 2023, https://arxiv.org/abs/2302.14003. That the rectifier's outputs, one a token, pass
through a logistic function, and that p stands where all caps are 0, is our reading.
"""

import jax
import jax.numpy as jnp

from rlx.data.dataset import Dataset
from rlx.engine import sample as engine
from rlx.engine import stepwise
from rlx.engine.columns import window
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.models.language import LanguageModel
from rlx.models.transformer import Params
from rlx.rollout.prompts import sampled
from rlx.types import Batch, Key, Models, StatefulRollout


def cap(logits: jax.Array, values: jax.Array) -> jax.Array:
  """The log of min(p, 1 + Q), renormalised: what is left of p = softmax(logits) under its security bounds.

  Args:
    logits: [..., V] float32; -inf for tokens that cannot be drawn.
    values: [..., V] Q in [-1, 0].
  Returns:
    [..., V] float32 log-probabilities; those of p where the bounds leave nothing.
  """
  logprobs = jax.nn.log_softmax(logits)
  capped = jnp.minimum(logprobs, jnp.log1p(values))
  total = jax.nn.logsumexp(capped, axis=-1, keepdims=True)
  something = jnp.isfinite(total)
  return jnp.where(something, capped - jnp.where(something, total, 0), logprobs)


def token_values(params: Params, model: LanguageModel, hidden: jax.Array) -> jax.Array:
  """Q(s, a) [..., V] in [-1, 0] of every next token, from the hidden states [..., D] of the rectifier."""
  return -jax.nn.sigmoid(model.logits(params, hidden))


def values(params: Params, model: LanguageModel, batch: Batch, *, decoding: Decoding) -> jax.Array:
  """Q of every token at the places of a row where an action can stand.

  Args:
    params: of the rectifier.
    model: its functions.
    batch: rows with `tokens, prompt_lengths`.
    decoding: how many actions a row may have.
  Returns:
    [B, max_tokens, V] float32; entry n is of the tokens that action number n could be.
  """
  return token_values(params, model, stepwise.predicting(params, model, batch, decoding=decoding))


def score(models: Models, policy: Speaker, rectifier: Speaker, batch: Batch) -> jax.Array:
  """Log-probs of the actions under the distribution that `sample` draws from; [B, T, V] is built.

  Args:
    models: `policy` and `rectifier`.
    policy: as it was sampled with.
    rectifier: caps it.
    batch: rows of `sample`.
  Returns:
    [B, T] float32, zero where `action_mask` is False.
  """
  decoding = policy.decoding
  logits = stepwise.base_logits(models['policy'], policy.model, batch, decoding=decoding)
  logprobs = cap(logits, values(models['rectifier'], rectifier.model, batch, decoding=decoding))
  taken = window(batch['tokens'], batch['prompt_lengths'], decoding.max_tokens)
  logprobs = jnp.take_along_axis(logprobs, taken[..., None], axis=-1)[..., 0]
  spread = window(logprobs, -batch['prompt_lengths'], batch['tokens'].shape[1])
  return jnp.where(batch['action_mask'], spread, 0)


def sample(
    models: Models,
    policy: Speaker,
    rectifier: Speaker,
    prompts: jax.Array,
    prompt_lengths: jax.Array,
    key: jax.Array,
    *,
    group_size: int,
    greedy: bool,
) -> Batch:
  """`sample.sample` under the security bounds of a rectifier; all rows are decoded at once.

  Args:
    models: `policy` and `rectifier`, over the same vocabulary.
    policy: draws; the bounds are put on the distribution that its decoding makes.
    rectifier: caps it; its decoding is not used.
    prompts: [P, Tp] int32, contiguous from column 0.
    prompt_lengths: [P] int32, at least 1.
    key: the noise of the whole batch.
    group_size: samples a prompt.
    greedy: take the likeliest tokens.
  Returns:
    The batch that `sample.sample` describes; `sampler_logprobs` are of the capped distribution.
  Raises:
    ValueError: prompt and completion do not fit the context of either.
  """

  def capped(models: Models, hidden: dict[str, jax.Array], column: jax.Array) -> jax.Array:
    logits = engine.adjusted_logits(
        models['policy'], policy.model, policy.decoding, hidden['policy'], column
    )
    return cap(logits, token_values(models['rectifier'], rectifier.model, hidden['rectifier']))

  return stepwise.together(
      models, {'policy': policy.model, 'rectifier': rectifier.model}, prompts, prompt_lengths, key, capped,
      group_size=group_size, decoding=policy.decoding, greedy=greedy,
  )


def completions(
    task: Task | Dataset, policy: Speaker, rectifier: Speaker, *, batch_size: int, group_size: int
) -> StatefulRollout:
  """Draws training problems and samples rectified completions of `models['policy']`.

  Args:
    task: where problems come from.
    policy: samples.
    rectifier: caps it; `models['rectifier']`, over the same vocabulary.
    batch_size: rows B of the batch.
    group_size: samples a problem; divides `batch_size`.
  Returns:
    A `rollout` function; its `sampler_logprobs` are of the capped distribution.
  Raises:
    ValueError: `group_size` does not divide `batch_size`.
  """

  def draw(models: Models, prompts: jax.Array, lengths: jax.Array, key: Key) -> Batch:
    return sample(
        models, policy, rectifier, prompts, lengths, key, group_size=group_size, greedy=False
    )

  return sampled(task, draw, batch_size=batch_size, group_size=group_size)
