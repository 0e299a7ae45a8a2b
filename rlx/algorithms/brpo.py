"""BRPO: thinking is cut at budgets and answered behind each cut; what it earns at all of them counts.

    thinking   A_j = R_j - [ (j - 1) / m V1_j + (m - j + 1) / m V2_j ],    R_j = Σ_{i >= j} P_i r_i
    summaries  A   = r - mean(r of the summaries of the same cut)

V1 is what the row's own answers at earlier budgets were worth, V2 the mean of the group
(`advantages/budgets.py`). The two are trained apart: a row of the rollout trains its thinking, up to the
marker that ends it, and each summary is a row of its own, whose prompt is the thinking that it was given.

Source: AnytimeReasoner, https://arxiv.org/abs/2505.13438, section 3. There the prior is sampled; here all
budgets of its support are looked at, as in the authors' code.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from rlx import reductions
from rlx.advantages import budgets as budget_advantages
from rlx.advantages import groups
from rlx.algorithms.grpo import grpo
from rlx.engine import sample as engine
from rlx.engine.probe import cut_rows, up_to_mark
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, one_token
from rlx.losses.anchors import no_kl
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def brpo(
    rollout: Rollout,
    policy: Speaker,
    task: Task,
    *,
    clip_low: float,
    clip_high: float,
    budgets: tuple[int, ...],
    budget_weights: tuple[float, ...],
    decay: float,
    marker: str,
    summary_tokens: int,
    summary_samples: int,
) -> Algorithm:
  """`grpo` with rows for thinking and rows for summaries; `reward/mean` is over all of these.

  Args:
    rollout: yields rows of samples with `sampler_logprobs`; B rows become B (1 + m S).
    policy: what learns; it decodes summaries as it does thinking, but for their length.
    task: verifies the answers, and says which tokens `marker` is.
    clip_low: the ratio counts down to 1 - clip_low.
    clip_high: the ratio counts up to 1 + clip_high.
    budgets: m numbers of actions, growing.
    budget_weights: P, how likely each of them is.
    decay: λ, how fast earlier answers lose weight in the baseline (0.5).
    marker: what ends thinking ('</think>'); it is put behind thinking that is cut.
    summary_tokens: the longest answer behind it.
    summary_samples: S, summaries of each cut (4); with one, summaries teach nothing.
  Raises:
    ValueError: budgets do not grow or lack a weight, the marker is not one token, or rows have a minimum of
      tokens.
  """
  if list(budgets) != sorted(set(budgets)) or len(budgets) != len(budget_weights):
    raise ValueError(f'budgets={budgets}, budget_weights={budget_weights}: need growing ones, a weight each')
  decoding = policy.decoding
  if decoding.min_tokens or summary_tokens > decoding.max_tokens:
    raise ValueError(
        f'min_tokens={decoding.min_tokens}, summary_tokens={summary_tokens}: summaries are scored as rows, '
        f'which needs decoding.min_tokens=0 and summary_tokens <= decoding.max_tokens={decoding.max_tokens}'
    )
  mark, weights = one_token(task, marker), jnp.array(budget_weights, jnp.float32)
  brief = policy.saying(max_tokens=summary_tokens)
  parent = grpo(
      rollout, None, policy, no_kl(), clip_low=clip_low, clip_high=clip_high, entropy_coef=0.0,
      baseline=groups.centred,
  )

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    thinking, kept = up_to_mark(batch, mark, decoding)
    cuts = jnp.minimum(kept[:, None], jnp.array(budgets)[None])
    prompts, lengths = cut_rows(batch, cuts, jnp.array([mark]))
    said = brief.sample(models['policy'], prompts, lengths, key, group_size=summary_samples)
    each = functools.partial(jnp.repeat, repeats=len(budgets) * summary_samples, axis=0)
    problems = {k: each(v) for k, v in batch.items() if k not in said}
    whole = {'prompt_lengths': each(batch['prompt_lengths'])}
    completions = engine.actions(whole, said['tokens'], decoding.max_tokens + 1 + summary_tokens)
    right = task.verify(problems, completions)
    by_budget = right.reshape(*cuts.shape, summary_samples).mean(axis=-1)
    num_rows = kept.shape[0]
    # Summaries of equal thinking, be it because it ended early, are compared with each other.
    same = groups.join(each(jnp.arange(num_rows)), jnp.repeat(cuts.reshape(-1), summary_samples))
    named = {f'budget/accuracy_{b}': by_budget[:, j] for j, b in enumerate(budgets)}
    batch = {**batch, **named, 'action_mask': thinking, 'rewards': by_budget @ weights}
    said = {**problems, **said, **{k: jnp.full(right.shape, jnp.nan) for k in named}}
    said |= {'rewards': right, 'groups': num_rows + same}
    batch, said = (
        {**rows, 'by_budget': x, 'summary': jnp.full(x.shape[0], kind)}
        for rows, x, kind in ((batch, by_budget, False), (said, each(by_budget), True))
    )
    return jax.tree.map(_stack, batch, said)

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    mask, summary = batch['action_mask'], batch['summary'][:, None]
    relative = budget_advantages.budget_relative(batch['by_budget'], weights, batch['groups'], decay=decay)
    index = jnp.where(mask, jnp.cumsum(mask, axis=1) - 1, -1)
    thought = budget_advantages.at_budgets(relative, index, budgets)
    # Each kind is a mean over its own rows, of sums over one constant: short summaries do not drown thinking.
    share = jnp.where(summary, jnp.mean(summary), jnp.mean(~summary))
    counts = reductions.constant_length_sum(mask, length=decoding.max_tokens) / share
    return {**batch, 'advantages': jnp.where(summary, batch['advantages'], thought), 'weights': counts}

  return dataclasses.replace(parent, reward=reward, advantage=advantage)


def _stack(x, y):
  """Rows under rows; the first ones are given the columns that they lack."""
  if x.ndim == 2:
    x = jnp.pad(x, ((0, 0), (0, y.shape[1] - x.shape[1])))
  return jnp.concatenate([x, y])
