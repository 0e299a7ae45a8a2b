"""Rows of worlds whose true reward is known (`envs/gold.py`): comparisons that are bought, and samples.

A label costs: comparisons are drawn in rounds, of the policy as it then is, and kept. One round is an offline
data set. What is learnt sees the labels, never the reward behind them.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from rlx.envs import gold
from rlx.errors import at_least
from rlx.rollout.prompts import check_groups
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, stateful

_ROUNDS, _STEP = 'comparisons', 'round_step'


def rounds(
    world: gold.Worlds, policy: gold.LogLinear, *, batch_size: int, rounds: int, pairs: int, period: int,
    sharpness: float, remembered: bool, flips: float = 0.0,
) -> StatefulRollout:
  """Batches of labelled comparisons, of which new ones are bought at the beginning of each round.

  Args:
    world: labels two different answers to a prompt by Bradley and Terry.
    policy: whose answers they are, as it is when the round begins.
    batch_size: rows B of a batch, two a comparison, drawn with replacement.
    rounds: how often labels are bought.
    pairs: comparisons of a round.
    period: train steps of a round; the last one goes on.
    sharpness: of labels; see `gold.compared`.
    remembered: whether batches are of all rounds so far, or of the last one alone.
    flips: of labels, as `sharpness`.
  """
  at_least(2, batch_size=batch_size)
  at_least(1, rounds=rounds, pairs=pairs, period=period)
  num_pairs, labels = check_groups(batch_size, 2), {'num': pairs, 'sharpness': sharpness, 'flips': flips}

  def begin(key: Key) -> World:
    label = functools.partial(gold.labelled, **labels)
    rows = jax.eval_shape(lambda key: label(world.make(key), key), key)
    stacked = jax.tree.map(lambda x: jnp.zeros((rounds, *x.shape), x.dtype), rows)
    return {_ROUNDS: stacked, _STEP: jnp.int32(0)}

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    step, (label_key, pick_key) = memory[_STEP], jax.random.split(key)
    now = jnp.minimum(step // period, rounds - 1)
    begins = (step % period == 0) & (step // period < rounds)

    def buy(turn, all_rounds):
      own_key, _ = jax.lax.optimization_barrier((label_key, turn))  # else all of it is done before the loop
      fresh = gold.preferred(models['world'], policy.logprobs(models['policy']), own_key, **labels)
      return jax.tree.map(lambda bought, x: bought.at[now].set(x), all_rounds, fresh)

    # A loop of no turn or one: a condition would label at every step where seeds are side by side.
    bought = jax.lax.fori_loop(0, begins.astype(jnp.int32), buy, memory[_ROUNDS])
    first = 0 if remembered else now * pairs
    picked = jax.random.randint(pick_key, (num_pairs,), first, (now + 1) * pairs)
    at = (2 * picked[:, None] + jnp.arange(2)[None]).reshape(-1)
    batch = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:])[at], bought)
    return {**batch, 'groups': jnp.arange(batch_size) // 2}, {_ROUNDS: bought, _STEP: step + 1}

  return StatefulRollout(begin=begin, draw=draw, data=None)


def against(
    world: gold.Worlds, policy: gold.LogLinear, reference: gold.LogLinear, *, batch_size: int,
    sharpness: float,
) -> StatefulRollout:
  """Labelled comparisons of an answer of the policy and one of the reference to the same prompt, fresh ones.

  Args:
    world: labels them.
    policy: gives the one answer.
    reference: gives the other one.
    batch_size: rows B of a batch, two a comparison.
    sharpness: of labels; see `gold.compared`.
  Returns:
    A `rollout` function; `pair_chosen_is_reference` says whose the better answer is, and pairs of equal
    answers have no weight.
  """
  num_pairs = check_groups(batch_size, 2)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    prompt_key, *answer_keys, label_key = jax.random.split(key, 4)
    prompts = jax.random.randint(prompt_key, (num_pairs,), 0, models['world'].gold.shape[0])
    both = (policy.logprobs(models['policy']), reference.logprobs(models['reference']))
    said = [jax.random.categorical(k, x[prompts]) for k, x in zip(answer_keys, both, strict=True)]
    pairs = jnp.stack(said, axis=1)
    rows = gold.compared(models['world'], prompts, pairs, label_key, sharpness=sharpness)
    of_reference = rows['tokens'][0::2, 1] == said[1]
    return {
        **rows, 'weights': jnp.repeat(said[0] != said[1], 2).astype(jnp.float32),
        'pair_chosen_is_reference': jnp.repeat(of_reference, 2).astype(jnp.float32),
    }, memory

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)


def beside_the_best(rollout: Rollout, world: gold.Worlds, *, beta: float) -> StatefulRollout:
  """The rows of a rollout with an answer of the best policy to each one's prompt, the same for a pair.

  Args:
    rollout: a section of its own, of comparisons.
    world: whose best policy answers, as the true reward has it: it stands for a model that teaches.
    beta: its price of a nat; see `gold.best`.
  Returns:
    A `rollout` function; the answers stand in columns `gold_tokens`, `gold_action_mask`, ...
  """
  inner = stateful(rollout)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    draw_key, answer_key = jax.random.split(key)
    batch, memory = inner(models, memory, draw_key)
    prompts, there = batch['tokens'][0::2, 0], models['world']
    answers = jax.random.categorical(answer_key, gold.best(there, there.gold, beta=beta)[prompts])
    rows = gold.rows_of(jnp.repeat(prompts, 2), jnp.repeat(answers, 2))
    return {**batch, **{f'gold_{name}': x for name, x in rows.items()}}, memory

  return dataclasses.replace(inner, draw=draw)


def groups(
    world: gold.Worlds, policy: gold.LogLinear, *, batch_size: int, group_size: int
) -> StatefulRollout:
  """Samples of the policy, `group_size` of each prompt.

  Args:
    world: whose prompts are drawn.
    policy: what samples.
    batch_size: rows B of the batch.
    group_size: divides it.
  """
  num_groups = check_groups(batch_size, group_size)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    prompt_key, answer_key = jax.random.split(key)
    num_prompts = models['world'].features.shape[0]
    prompts = jax.random.randint(prompt_key, (num_groups, 1), 0, num_prompts)
    lengths = jnp.ones(num_groups, jnp.int32)
    return policy.sample(models['policy'], prompts, lengths, answer_key, group_size=group_size), memory

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)


def against_shown(
    world: gold.Worlds, policy: gold.LogLinear, *, batch_size: int, balanced: bool
) -> StatefulRollout:
  """Comparisons of what an expert has shown with what the policy says: inverse reinforcement learning.

  Args:
    world: with demonstrations and categories, such as `tailed_worlds`.
    policy: gives the worse answer of each pair.
    batch_size: rows B of a batch, two a comparison; those of equal answers have no weight.
    balanced: whether categories are drawn as often, or prompts.
  Source: DR-IRL, https://arxiv.org/abs/2503.18991, whose demonstrations are balanced over categories.
  """
  num_pairs = check_groups(batch_size, 2)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    prompt_key, shown_key, said_key = jax.random.split(key, 3)
    there = models['world']
    once = jnp.ones(len(there.categories))
    sizes = jax.ops.segment_sum(once, there.categories, num_segments=len(once))[there.categories]
    odds = -jnp.log(sizes) if balanced else jnp.zeros_like(sizes)
    prompts = jax.random.categorical(prompt_key, odds, shape=(num_pairs,))
    which = jax.random.randint(shown_key, (num_pairs,), 0, there.shown.shape[1])
    better = there.shown[prompts, which]
    worse = jax.random.categorical(said_key, policy.logprobs(models['policy'])[prompts])
    rows = gold.rows_of(jnp.repeat(prompts, 2), jnp.stack([better, worse], axis=1).reshape(-1))
    places = jnp.arange(batch_size)
    return {
        **rows, 'groups': places // 2, 'preferred': places % 2 == 0,
        'weights': jnp.repeat(better != worse, 2).astype(jnp.float32),
    }, memory

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)


def twin_pairs(world: gold.Worlds, *, batch_size: int) -> StatefulRollout:
  """Rows [B, 3] of a prompt and two answers of the reference; `preferred` says whether they mean the same.

  Args:
    world: with meanings, which stand for what annotators say; in half of the pairs the second answer is drawn
      from those that mean the same.
    batch_size: rows B of the batch.
  """
  at_least(1, batch_size=batch_size)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    prompt_key, side_key, *keys = jax.random.split(key, 4)
    there = models['world']
    prompts = jax.random.randint(prompt_key, (batch_size,), 0, len(there.base))
    first = jax.random.categorical(keys[0], there.base[prompts])
    meant = jnp.take_along_axis(there.meanings[prompts], first[:, None], axis=1)
    near = jax.random.bernoulli(side_key, shape=(batch_size, 1)) & (there.meanings[prompts] != meant)
    second = jax.random.categorical(keys[1], jnp.where(near, -jnp.inf, there.base[prompts]))
    alike = jnp.take_along_axis(there.meanings[prompts], second[:, None], axis=1) == meant
    rows = gold.rows_of(prompts, first)
    wide = lambda x: jnp.pad(x, ((0, 0), (0, 1)), constant_values=True)
    return {
        **rows, 'tokens': jnp.concatenate([rows['tokens'], second[:, None]], axis=1),
        'valid': wide(rows['valid']), 'action_mask': wide(rows['action_mask']), 'preferred': alike[:, 0],
    }, memory

  return StatefulRollout(begin=lambda key: {}, draw=draw, data=None)


def verdicts(
    world: gold.Worlds, policy: gold.LogLinear, *, batch_size: int, bar: float
) -> StatefulRollout:
  """Answers of the policy, one to a prompt, with what a rule says of them in the column `preferred`.

  Args:
    world: whose prompts are drawn, and whose rule it is.
    policy: what answers.
    batch_size: rows B of the batch.
    bar: see `gold.right`.
  """
  answered = groups(world, policy, batch_size=batch_size, group_size=1)

  def draw(models: Models, memory: World, key: Key) -> tuple[Batch, World]:
    batch, memory = answered(models, memory, key)
    prompts, answers = batch['tokens'].T
    return {**batch, 'preferred': gold.right(models['world'], bar=bar)[prompts, answers]}, memory

  return dataclasses.replace(answered, draw=draw)
