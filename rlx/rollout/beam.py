"""Beam search by steps: rows grow by sampled steps, and those whose prefix is worth most go on.

In each round every beam is continued a few times, up to a separator or the end, and of all that a problem has
then, the best by a value are its beams. Which value is the caller's: a prover's chance from there
(`algorithms/pav.py`), a trained model, a rule. Rows that have ended stay, and compete by their value.

The rows are chosen, not drawn: their `sampler_logprobs` are those of the steps, but to learn from them as
samples of the policy would be wrong.

Source: Setlur et al., 2024, https://arxiv.org/abs/2410.08146, section 4 (search against a process verifier).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.engine import sample as engine
from rlx.engine.columns import window
from rlx.engine.speaker import Speaker
from rlx.models.transformer import Params
from rlx.rollout.prompts import columns_of
from rlx.types import Batch, Key

# (rows with `tokens, prompt_lengths` and the columns of their problems, cuts [R, 1], key) -> [R, 1]: what the
# first actions of each row are worth, as `probe.success_of_cuts`.
PrefixValue = Callable[[Batch, jax.Array, Key], jax.Array]


class Beams(NamedTuple):
  """R rows, those of a problem consecutive."""

  tokens: jax.Array  # [R, T] int32, padding behind the last action
  logprobs: jax.Array  # [R, T] float32, as they were drawn; 0 elsewhere
  counts: jax.Array  # [R] int32, actions so far
  ended: jax.Array  # [R] bool, by an end token
  values: jax.Array  # [R] float32, of the prefix


def search(
    params: Params,
    policy: Speaker,
    problems: Batch,
    key: Key,
    *,
    value: PrefixValue,
    separator: int,
    beams: int,
    branches: int,
    rounds: int,
    step_tokens: int,
) -> Batch:
  """The best rows that each problem has after some rounds, the best one first.

  Args:
    params: of the policy.
    policy: samples; the `max_tokens` of its decoding are of whole rows.
    problems: `prompts` [P, Tp], `prompt_lengths` [P], and whatever columns the value reads.
    key: the noise.
    value: of prefixes. That of a row at its end is asked too, behind the end token.
    separator: the token that ends a step.
    beams: rows of a problem that are kept.
    branches: continuations of each.
    rounds: steps of the longest row, the one that ends it among them.
    step_tokens: the most tokens of a step, its separator among them; a longer one is cut there.
  Returns:
    A batch of P * beams rows as `sample.sample` describes, with `beam/values` [B], and `beam/tokens` [B], how
    many tokens were sampled for the row's problem, those that were dropped among them. A row that has
    neither ended nor reached its limit is `truncated` too.
  Raises:
    ValueError: a row and a step do not fit the context, a number is below 1, or `decoding.min_tokens` is not
      0: a step does not know how many tokens precede it.
  """
  decoding = policy.decoding
  if min(beams, branches, rounds) < 1 or not 1 <= step_tokens <= decoding.max_tokens:
    raise ValueError(
        f'beams={beams}, branches={branches}, rounds={rounds}, step_tokens={step_tokens}: need at least 1, '
        f'and steps of at most decoding.max_tokens={decoding.max_tokens}'
    )
  if decoding.min_tokens:
    raise ValueError(f'decoding.min_tokens={decoding.min_tokens}: beams may end at any step, set it to 0')
  lengths = jnp.repeat(problems['prompt_lengths'], beams)
  columns, num_branches = columns_of(problems, beams * branches), lengths.shape[0] * branches
  own = jnp.arange(num_branches) % branches  # which of its beam's branches a row is

  def grow(carry: tuple[Beams, jax.Array], round_key: Key):
    before, sampled = carry
    step_key, value_key = jax.random.split(round_key)
    grown = _steps(
        params, policy, before, lengths, step_key, branches=branches, separator=separator,
        step_tokens=step_tokens,
    )
    repeated = jax.tree.map(lambda x: jnp.repeat(x, branches, axis=0), before)
    drawn = (grown.counts - repeated.counts).reshape(-1, beams * branches)
    rows = {**columns, 'tokens': grown.tokens, 'prompt_lengths': jnp.repeat(lengths, branches)}
    values = value(rows, grown.counts[:, None], value_key)[:, 0]
    # A beam that cannot grow has one branch, itself; its copies would crowd out the others.
    stuck = repeated.ended | (repeated.counts >= decoding.max_tokens)
    grown = grown._replace(values=jnp.where(stuck & (own > 0), -jnp.inf, values))
    return (_best(grown, beams, beams * branches), sampled + drawn.sum(axis=1)), None

  begun = _begin(problems, beams, decoding.max_tokens)
  sampled = jnp.zeros(problems['prompts'].shape[0], jnp.int32)
  (best, sampled), _ = jax.lax.scan(grow, (begun, sampled), jax.random.split(key, rounds))
  completions, logprobs = (window(x, lengths, decoding.max_tokens) for x in (best.tokens, best.logprobs))
  rows = engine.as_rows(problems['prompts'], lengths, beams, completions, logprobs, best.counts, decoding)
  return {
      **columns_of(problems, beams), **rows, 'beam/values': best.values,
      'beam/tokens': jnp.repeat(sampled, beams),
  }


def _begin(problems: Batch, beams: int, max_tokens: int) -> Beams:
  """The prompts alone."""
  prompts = jnp.repeat(jnp.pad(problems['prompts'], ((0, 0), (0, max_tokens))), beams, axis=0)
  num_rows = prompts.shape[0]
  zero = jnp.zeros(num_rows, jnp.int32)
  return Beams(prompts, jnp.zeros(prompts.shape), zero, zero > 0, jnp.zeros(num_rows))


def _steps(
    params, policy: Speaker, before: Beams, lengths, key, *, branches, separator, step_tokens
) -> Beams:
  """Every row continued `branches` times by one step; rows that have ended, or have no room, as they are."""
  decoding = policy.decoding
  step = policy.saying(max_tokens=step_tokens, eos_ids=(*decoding.eos_ids, separator))
  each = lambda x: jnp.repeat(x, branches, axis=0)
  room = each(decoding.max_tokens - before.counts)
  said = step.sample(
      params, before.tokens, lengths + before.counts, key, group_size=branches,
      budgets=jnp.clip(room, 1, step_tokens),
  )
  grows = ~each(before.ended) & (room > 0)
  num_columns = before.tokens.shape[1]  # what a step has room for ends within them
  new = said['action_mask'][:, :num_columns] & grows[:, None]
  put = lambda x, old: jnp.where(new, x[:, :num_columns], each(old))
  ends = jnp.any(decoding.is_end(said['tokens'][:, :num_columns]) & new, axis=1)
  return Beams(
      tokens=put(said['tokens'], before.tokens), logprobs=put(said['sampler_logprobs'], before.logprobs),
      counts=each(before.counts) + new.sum(axis=1), ended=each(before.ended) | ends,
      values=each(before.values),
  )


def _best(rows: Beams, beams: int, of: int) -> Beams:
  """The `beams` rows of each problem with the highest values, of `of` that it has; the best one first."""
  values, places = jax.lax.top_k(rows.values.reshape(-1, of), beams)
  index = (places + of * jnp.arange(values.shape[0])[:, None]).reshape(-1)
  return jax.tree.map(lambda x: x[index], rows)
