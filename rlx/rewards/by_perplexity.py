"""What a retrieved text is worth to a generator: by how much less the target surprises it."""

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.snippets import SnippetTask
from rlx.errors import at_least
from rlx.types import Annotate, Batch, Key, Models


def fall_of_perplexity(task: SnippetTask, generator: Speaker, *, price: float) -> Annotate:
  """Adds `rewards` [B]: how far the perplexity of what comes next falls with what was retrieved.

      r = log PPL(y | q) - log PPL(y | c, q) - price,   PPL = exp(-mean over tokens of y of log p)

  The empty candidate gets 0 and has no price, one that confuses gets less. Nobody says which candidate was
  the right one. Without a price nothing is to be had by stopping where a snippet does not harm.

  Args:
    task: builds the rows without a snippet.
    generator: a frozen model, `models['generator']`, which scores the targets.
    price: of a snippet's room, in nats a token of y; not below 0.
  Returns:
    A reward; `generator/perplexity` [B] and `generator/perplexity_alone` [B] are metrics.
  Source: RLCoder, https://arxiv.org/abs/2407.19487; the logarithm and the price are our
    reading.
  """
  at_least(0, price=price)

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del key
    none = jnp.zeros_like(batch['candidates'][:, 0])
    taken = batch['prompt_lengths'] > task.query_columns
    alone = task.with_snippets(batch['queries'], none, batch['solutions'])
    with_one = perplexities(generator.score(models['generator'], batch)[0], batch['action_mask'])
    without = perplexities(generator.score(models['generator'], alone)[0], alone['action_mask'])
    return {
        **batch, 'rewards': jnp.log(without / with_one) - price * taken,
        'generator/perplexity': with_one, 'generator/perplexity_alone': without,
    }

  return reward


def perplexities(logprobs: jax.Array, mask: jax.Array) -> jax.Array:
  """[B]: exp of the mean surprise, in nats, of the tokens [B, T] that count; 1 for a row without any."""
  surprise = jnp.where(mask, -logprobs, 0).sum(axis=1)
  return jnp.exp(surprise / jnp.maximum(mask.sum(axis=1), 1))
