"""Rewards of several models that answer the same problems: what all of them together agree on."""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

from rlx.engine.speaker import Speaker
from rlx.envs.text import Task
from rlx.rewards import labelfree
from rlx.types import Annotate, Key, Models, Rows

Weigh = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]  # (said, groups, agents) -> [B]


def agreed(
    task: Task, speakers: Mapping[str, Speaker], *, answer_tokens: int, weigh: Weigh
) -> Annotate:
  """Adds `rewards` [B] to the rows of each learner: 1 where its answer is the one that all have voted for.

      pseudo-label = argmax_a Σ_m Σ_i w_m 1[a_mi = a],   w_m the weight of model m on this problem

  The metric `reward/right` says what the task thinks of an answer; nothing learns from that.

  Args:
    task: for its end tokens, and for the metric.
    speakers: learner -> its model, by `names`; those whose rows vote.
    answer_tokens: the answer is so many tokens before the end; 0 for the whole completion.
    weigh: of each vote, such as `labelfree.self_consistency`, or `labelfree.alike` for one row, one vote.
  Source: RLCCF, https://arxiv.org/abs/2508.12338.
  """

  def reward(models: Models, rows: Rows, key: Key) -> Rows:
    del models, key
    names = [*speakers]
    join = lambda column: jnp.concatenate([rows[name][column] for name in names])
    batch = {name: join(name) for name in ('tokens', 'action_mask', 'prompt_lengths', 'groups')}
    agents = jnp.arange(len(batch['groups'])) * len(names) // len(batch['groups'])  # as many rows of each
    decoding = speakers[names[0]].decoding
    completions, said, has_answer = labelfree.read(task, decoding, batch, answer_tokens=answer_tokens)
    weights = weigh(said, batch['groups'], agents) * has_answer
    rewards = labelfree.weighted_vote(said, batch['groups'], weights) * has_answer
    scored = {}
    for number, name in enumerate(names):
      own = slice(number * len(rewards) // len(names), (number + 1) * len(rewards) // len(names))
      right = task.verify(rows[name], completions[own])
      scored[name] = {**rows[name], 'rewards': rewards[own], 'reward/right': right}
    return {**rows, **scored}

  return reward
