"""What follows the clock, and which rows of a batch are kept.

Schedules are functions of the train step, which may be traced: a length, a horizon, the stage of a cascade.
What they say is a number or an index, and whatever they steer (the `budgets` of a rollout, weights of
prompts, a reward) is chosen by it.

Filters are masks [B] over rows that were sampled, True = the row is kept. They are combined with `&` and go
to `rollout.select.first_rows`, or into the weights of a loss.
"""

from collections.abc import Sequence

import chex
import jax
import jax.numpy as jnp

from rlx.types import Key

# --- schedules ----------------------------------------------------------------------------------------------


def constant(step: jax.Array | int, *, value: int) -> jax.Array:
  """[] int32: the same at every step."""
  return jnp.full_like(jnp.asarray(step, jnp.int32), value)


def oscillating(step: jax.Array | int, *, low: int, high: int, period: int) -> jax.Array:
  """L = low + (high - low) (1 + cos(2π t / period)) / 2: compression from high to low, and expansion back.

  Args:
    step: [] train step t.
    low: the least length, in tokens.
    high: the greatest, with which a cycle begins.
    period: steps of a cycle, at least 1.
  Returns:
    [] int32 length, for `budgets`.
  Source: SIRI, https://arxiv.org/abs/2509.25176, which has a cosine scheduler; its phase is our reading.
  """
  phase = jnp.asarray(step, jnp.int32) % period  # before it is a float: a late step would lose its phase
  height = 0.5 * (1 + jnp.cos(2 * jnp.pi / period * phase.astype(jnp.float32)))
  return jnp.round(low + (high - low) * height).astype(jnp.int32)


def horizon(step: jax.Array | int, *, first: int, last: int, num_steps: int) -> jax.Array:
  """From `first` to `last` on a line, and then `last`: turns, actions, or where a backward curriculum starts.

  Args:
    step: [] train step.
    first: value at step 0.
    last: value from `num_steps` on; smaller than `first` for a horizon that moves backward.
    num_steps: at least 1.
  Returns:
    [] int32, the nearest whole number.
  """
  return jnp.round(linear(step, first=first, last=last, num_steps=num_steps)).astype(jnp.int32)


def linear(step: jax.Array | int, *, first: float, last: float, num_steps: int) -> jax.Array:
  """[] float32: `horizon` without rounding, for weights and shares.

  Args:
    step: [] train step.
    first: value at step 0.
    last: value from `num_steps` on.
    num_steps: at least 1.
  """
  done = jnp.clip(jnp.asarray(step, jnp.int32), 0, num_steps).astype(jnp.float32) / num_steps
  return first + (last - first) * done


def exponential(step: jax.Array | int, *, first: float, last: float, num_steps: int) -> jax.Array:
  """[] float32: from `first` to `last` by the same factor each step, and then `last`; both above 0.

  Args:
    step: [] train step.
    first: value at step 0.
    last: value from `num_steps` on.
    num_steps: at least 1.
  """
  done = linear(step, first=0.0, last=1.0, num_steps=num_steps)
  return first * (last / first) ** done


def two_phases(
    step: jax.Array | int, *, kept: float, slow_rate: float, fast_rate: float, num_steps: int
) -> jax.Array:
  """[] float32: from 1 slowly towards `kept` in the first half, and from there fast towards 0.

      1 - (1 - kept) (1 - e^(-slow_rate p))  for p <= 1,    then  kept e^(-fast_rate (p - 1)),
      p = 2 t / num_steps

  Args:
    step: [] train step t; behind `num_steps` the last value stays.
    kept: in [0, 1] (0.8 in EPO's code).
    slow_rate: of the first half (2 in EPO's code).
    fast_rate: of the second half (3 in EPO's code).
    num_steps: of both phases, at least 1.
  Source: EPO, https://arxiv.org/abs/2509.22576; as in the authors' code.
  """
  halves = 2 * jnp.clip(jnp.asarray(step, jnp.int32), 0, num_steps).astype(jnp.float32) / num_steps
  first = 1 - (1 - kept) * (1 - jnp.exp(-slow_rate * halves))
  return jnp.where(halves <= 1, first, kept * jnp.exp(-fast_rate * (halves - 1)))


def stage(step: jax.Array | int, *, boundaries: Sequence[int]) -> jax.Array:
  """[] int32: how many of the boundaries have been reached; a stage begins at the step that is its boundary.

  Args:
    step: [] train step.
    boundaries: first steps of stages 1, 2, .., rising.
  Raises:
    ValueError: the boundaries do not rise.
  """
  if any(a >= b for a, b in zip(boundaries[:-1], boundaries[1:], strict=True)):
    raise ValueError(f'boundaries={tuple(boundaries)} do not rise; pass the first step of each later stage')
  starts = jnp.asarray(boundaries, jnp.int32)
  return jnp.sum(jnp.asarray(step, jnp.int32) >= starts, dtype=jnp.int32)


def of_stage(step: jax.Array | int, *, values: Sequence[float], boundaries: Sequence[int]) -> jax.Array:
  """The value of the present stage: a maximum length or number of turns, a mode's number, a coefficient.

  Args:
    step: [] train step.
    values: one for each stage; integers make an int32, anything else a float32.
    boundaries: first steps of stages 1, 2, ..
  Raises:
    ValueError: there is not one value for each stage.
  Source: Nemotron-Cascade, https://arxiv.org/abs/2512.13607, a stage's own length and mode.
  """
  if len(values) != len(boundaries) + 1:
    raise ValueError(
        f'{len(values)} values for {len(boundaries)} boundaries; pass one value more than boundaries'
    )
  dtype = jnp.int32 if all(isinstance(value, int) for value in values) else jnp.float32
  return jnp.asarray(values, dtype)[stage(step, boundaries=boundaries)]


def domain_cascade(
    step: jax.Array | int, domains: jax.Array, *, order: Sequence[int], boundaries: Sequence[int]
) -> jax.Array:
  """1 for the prompts of the domain whose turn it is, else 0: one domain after the other, never a blend.

  Args:
    step: [] train step.
    domains: [N] int32 domain of each prompt.
    order: the domain of each stage.
    boundaries: first steps of stages 1, 2, ..
  Returns:
    [N] weights, for the draws of `prompts.py`.
  Raises:
    ValueError: there is not one domain for each stage.
  Source: Nemotron-Cascade, https://arxiv.org/abs/2512.13607.
  """
  return (domains == of_stage(step, values=order, boundaries=boundaries)).astype(jnp.float32)


# --- filters ------------------------------------------------------------------------------------------------


def without_void_turns(fruitful: jax.Array, turns: jax.Array) -> jax.Array:
  """Keeps trajectories in which every turn did something.

  Args:
    fruitful: [B, K] bool, True where turn k holds a whole tool call or a final answer.
    turns: [B] int32, how many turns were taken, at most K.
  Returns:
    [B] bool.
  Source: SimpleTIR, https://arxiv.org/abs/2509.02479.
  """
  chex.assert_rank([fruitful, turns], [2, 1])
  taken = jnp.arange(fruitful.shape[1])[None] < turns[:, None]
  return jnp.all(fruitful | ~taken, axis=1)


def not_overlong(truncated: jax.Array, trajectories: jax.Array) -> jax.Array:
  """Keeps trajectories that ended by themselves; one part that ran into the limit drops all parts.

  Args:
    truncated: [B] bool, True where the limit ended the row.
    trajectories: [B] int32 ids in 0..B-1 of the trajectory of which a row is a part; `jnp.arange(B)` where
      rows are whole trajectories.
  Returns:
    [B] bool.
  Source: SUPO, https://arxiv.org/abs/2510.06727, overlong masking; our reading.
  """
  chex.assert_rank([truncated, trajectories], 1)
  num = truncated.shape[0]
  return jax.ops.segment_sum(truncated.astype(jnp.int32), trajectories, num_segments=num)[trajectories] == 0


def solved_at_all(correct: jax.Array, groups: jax.Array) -> jax.Array:
  """Keeps groups with a success; those of zero accuracy go.

  Args:
    correct: [B] bool.
    groups: [B] int32 ids in 0..B-1.
  Returns:
    [B] bool.
  """
  chex.assert_rank([correct, groups], 1)
  num = correct.shape[0]
  return jax.ops.segment_sum(correct.astype(jnp.int32), groups, num_segments=num)[groups] > 0


def balanced(correct: jax.Array, groups: jax.Array, key: Key, *, num_kept: int) -> jax.Array:
  """Keeps `num_kept` rows of each group, half of them right where there are enough of both kinds.

  Args:
    correct: [B] bool.
    groups: [B] int32 ids in 0..B-1, in any order and of any size.
    key: which rows of a kind are kept.
    num_kept: rows of each group; all rows of a smaller group are kept.
  Returns:
    [B] bool.
  Source: Reinforce-Ada, https://arxiv.org/abs/2510.04996, as in the authors' code.
  """
  right, size = _group_counts(correct, groups)
  quota = jnp.clip(num_kept // 2, jnp.minimum(num_kept - (size - right), right), right)
  return _kept(correct, groups, jax.random.gumbel(key, correct.shape), quota, num_kept)


def tool_penalties(
    tool_errors: jax.Array, tool_calls: jax.Array, answers: jax.Array, turns: jax.Array
) -> jax.Array:
  """p_err + p_format: the share of tool calls that failed, and how far the answer's format is from right.

  p_err is 1/2 where no tool was called. p_format is 1 without an answer, else min((answers - 1) / turns, 1).

  Args:
    tool_errors: [B] tool calls that failed.
    tool_calls: [B] tool calls.
    answers: [B] how often an answer was given.
    turns: [B] turns of the policy.
  Returns:
    [B] float32 in [0, 2].
  Source: rStar2-Agent (GRPO-RoC), https://arxiv.org/abs/2508.20722, as in code that follows it.
  """
  share = lambda x, y: x.astype(jnp.float32) / jnp.maximum(y, 1).astype(jnp.float32)
  errors = jnp.where(tool_calls > 0, share(tool_errors, tool_calls), 0.5)
  return errors + jnp.where(answers > 0, jnp.minimum(share(answers - 1, turns), 1), 1)


def resampled_on_correct(
    correct: jax.Array,
    penalties: jax.Array,
    groups: jax.Array,
    key: Key,
    *,
    num_kept: int,
    kind_min: int,
    eps: float = 1e-3,
) -> jax.Array:
  """Keeps `num_kept` rows of each group, clean ones among the right, any among the wrong.

  The share of right rows stays, to rounding; `kind_min` sees to it that rounding makes no group of which
  nothing can be learnt. Right rows are drawn one after the other, with probability in proportion to
  1 / (penalty + eps); wrong ones uniformly, so that all ways to fail are seen.

  Args:
    correct: [B] bool.
    penalties: [B] of `tool_penalties`, at least 0.
    groups: [B] int32 ids in 0..B-1, in any order and of any size.
    key: of the draw.
    num_kept: rows of each group, half of what was sampled in the paper; all rows of a smaller group are kept.
    kind_min: right rows, and wrong rows, that are kept at least where there are so many; at most half of
      `num_kept` (code that follows the paper: 2).
    eps: keeps the weight of a row without fault finite.
  Returns:
    [B] bool.
  Raises:
    ValueError: `kind_min` is not within 0..num_kept / 2.
  Source: rStar2-Agent (GRPO-RoC), https://arxiv.org/abs/2508.20722; code that follows it keeps the least
    penalties without drawing.
  """
  if not 0 <= 2 * kind_min <= num_kept:
    raise ValueError(f'kind_min={kind_min} of each kind in num_kept={num_kept} rows; pass at most half')
  chex.assert_equal_shape([correct, penalties, groups])
  right, size = _group_counts(correct, groups)
  quota = jnp.round(right * num_kept / jnp.maximum(size, num_kept)).astype(jnp.int32)
  fewest = lambda count: jnp.minimum(kind_min, count)
  quota = jnp.clip(quota, fewest(right), num_kept - fewest(size - right))
  logits = jnp.where(correct, -jnp.log(penalties + eps), 0)
  return _kept(correct, groups, logits + jax.random.gumbel(key, correct.shape), quota, num_kept)


def _group_counts(correct: jax.Array, groups: jax.Array) -> tuple[jax.Array, jax.Array]:
  """[B] each: for each row, how many of its group are right, and how many there are."""
  chex.assert_rank([correct, groups], 1)
  sums = lambda x: jax.ops.segment_sum(x.astype(jnp.int32), groups, num_segments=groups.shape[0])[groups]
  return sums(correct), sums(jnp.ones(groups.shape, bool))


def _kept(correct, groups, scores, quota, num_kept):
  """[B]: True for the best `quota` right and the best `num_kept - quota` wrong rows of each group."""
  order = jnp.lexsort((-scores, correct, groups))
  kinds = 2 * groups + correct  # ids in 0..2B-1, in the order of the sort
  first = jax.ops.segment_min(jnp.arange(order.shape[0]), kinds[order], num_segments=2 * order.shape[0])
  ranks = jnp.zeros(order.shape, jnp.int32).at[order].set(jnp.arange(order.shape[0], dtype=jnp.int32))
  return ranks - first[kinds] < jnp.where(correct, quota, num_kept - quota)
