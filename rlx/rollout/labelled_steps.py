"""Rows whose steps have labels that come of outcomes alone, for a process head (`algorithms.stepwise`)."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rlx.advantages import potentials
from rlx.engine import sample as engine
from rlx.engine.probe import success_of_cuts
from rlx.engine.speaker import Speaker
from rlx.envs.text import Task, one_token
from rlx.errors import at_least, between
from rlx.rollout.prompts import check_chance
from rlx.types import Batch, Key, Models, Rollout, StatefulRollout, World, keep_world, redrawn


def by_completions(
    rollout: Rollout, task: Task, completer: Speaker, *, separator: str, max_steps: int, completions: int,
    best_of: int,
) -> StatefulRollout:
  """The rows of a rollout; a step is labelled by how often completions from its end reach the right answer.

  The answer behind the last step has its own verdict. A step from which there is a way is called right, be it
  wrong by itself and put right later.

  Args:
    rollout: a section of its own, of samples.
    task: verifies.
    completer: goes on from the end of each step: `models['completer']`, by `names` the policy itself.
    separator: one token, which ends a step.
    max_steps: so many steps have a label, and the answer; those between have none.
    completions: N from the end of each step.
    best_of: K: the label is the chance that one of K completions is right. 1 is the share of right ones (the
      paper's soft estimate), N is whether there is one (its hard estimate).
  Returns:
    A `rollout` function, whose rows have `step_ends` and `step_labels` [B, T].
  Raises:
    ValueError: a number is out of its range, or the completer has no chance.
  Source: Math-Shepherd, https://arxiv.org/abs/2312.08935, eq. 3 and 4.
  """
  at_least(1, max_steps=max_steps, completions=completions)
  between(1, completions, best_of=best_of)
  check_chance(completer, completions)
  end_of_step = one_token(task, separator)

  def values(models: Models, batch: Batch, numbers: jax.Array, key: Key) -> jax.Array:
    cuts = potentials.step_cuts(numbers, max_steps)[:, 1:]
    how = {'samples': completions, 'best_of': best_of}
    return success_of_cuts(models['completer'], completer, task, batch, cuts, key, **how)

  return _labelled(rollout, task, completer, end_of_step, max_steps, values)


def by_outcome(
    rollout: Rollout, task: Task, policy: Speaker, *, separator: str, max_steps: int
) -> StatefulRollout:
  """The rows of a rollout; each step has the verdict on the answer, whatever it is by itself.

  A head that learns from them is an outcome's verifier that speaks at every step. What it learns has the same
  mean as labels of `by_completions` by the policy that sampled, from a single completion for all steps.

  Args:
    rollout: a section of its own, of samples.
    task: verifies.
    policy: says how long completions can be.
    separator: one token, which ends a step.
    max_steps: as for `by_completions`.
  Source: the verifiers of Cobbe et al., 2021, https://arxiv.org/abs/2110.14168, section 4.2, which speak at
    every token.
  """
  at_least(1, max_steps=max_steps)

  def values(models: Models, batch: Batch, numbers: jax.Array, key: Key) -> jax.Array:
    del models, numbers, key
    return jnp.repeat(_verdicts(task, policy, batch)[:, None], max_steps, axis=1)

  return _labelled(rollout, task, policy, one_token(task, separator), max_steps, values)


def _labelled(
    rollout: Rollout, task: Task, speaker: Speaker, separator: int, max_steps: int,
    values: Callable[[Models, Batch, jax.Array, Key], jax.Array],
) -> StatefulRollout:
  """Rows with labels; `values(models, batch, numbers [B, T], key)` are those of the first steps [B, N]."""

  def labelled(drawn: Rollout) -> Rollout:
    def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
      draw_key, value_key = jax.random.split(key)
      batch, world = drawn(models, world, draw_key)
      tokens, mask = batch['tokens'], batch['action_mask']
      numbers = potentials.step_numbers(tokens, mask, separator)
      counts = potentials.step_counts(tokens, mask, separator)[:, None]
      of_steps = potentials.at_steps(values(models, batch, numbers, value_key), numbers)
      is_answer = numbers == counts
      known = potentials.step_ends(tokens, mask, separator) & (is_answer | (numbers < max_steps))
      labels = jnp.where(is_answer, _verdicts(task, speaker, batch)[:, None], of_steps)
      return {**batch, 'step_ends': known, 'step_labels': jnp.where(known, labels, 0.0)}, world

    return draw

  return redrawn(rollout, labelled, observe=keep_world)


def _verdicts(task, speaker, batch):
  return task.verify(batch, engine.completions_of(batch, speaker.decoding)).astype(jnp.float32)
