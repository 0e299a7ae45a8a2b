"""The reward of a stage with several learners: one each, and rows that are made of scored ones."""

from collections.abc import Iterator, Mapping
import contextlib

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.rewards.host import HostReward, OnHost
from rlx.rewards.pool import Scores
from rlx.types import Annotate, Batch, Key, Models, Rows


def by_name(**rewards: Annotate) -> Annotate:
  """A reward for the rows of each learner; those of learners without one stay as they are.

  Args:
    **rewards: learner -> reward, a section each. One of them may be Python on the host.
  Raises:
    ValueError: several are Python.
  """
  on_host = [name for name, reward in rewards.items() if isinstance(reward, OnHost)]
  if len(on_host) > 1:
    raise ValueError(f'the rewards of {on_host} are Python; put their functions into one section')
  if on_host:
    return _OneOnHost(rewards, on_host[0])
  return lambda models, rows, key: _scored(rewards, models, rows, key)


def _scored(rewards: Mapping[str, Annotate], models: Models, rows: Rows, key: Key) -> Rows:
  if unknown := sorted(set(rewards) - set(rows)):
    raise ValueError(f'there are rewards for {unknown}; the rollout hands rows for {sorted(rows)}')
  return {**rows, **{name: reward(models, rows[name], key) for name, reward in rewards.items()}}


class _OneOnHost(OnHost):
  """Rewards of which one is Python: the others are compiled, each by itself."""

  def __init__(self, rewards: Mapping[str, Annotate], on_host: str):
    self._host: HostReward = rewards[on_host]
    self._rewards = {
        name: reward if name == on_host else jax.jit(reward) for name, reward in rewards.items()
    }

  def __call__(self, models: Models, rows: Rows, key: Key) -> Rows:
    return _scored(self._rewards, models, rows, key)

  def heard(self) -> list[Scores]:
    """As `OnHost`."""
    return self._host.heard()

  @contextlib.contextmanager
  def only_shapes(self) -> Iterator[None]:
    """As `OnHost`."""
    with self._host.only_shapes():
      yield

  def close(self) -> None:
    """As `OnHost`."""
    self._host.close()


def pairs(reward: Annotate, *, of: str, to: str) -> Annotate:
  """Another learner's rows, made of scored ones: the best and the worst of each group, side by side.

  Args:
    reward: scores rows; a section of its own.
    of: learner whose rows it scores.
    to: learner that gets the comparisons, as `best_and_worst` makes them.
  """

  def scored(models: Models, rows: Rows, key: Key) -> Rows:
    batch = reward(models, rows[of], key)
    return {**rows, of: batch, to: best_and_worst(batch)}

  return scored


def against_solutions(reward: Annotate, *, of: str, to: str) -> Annotate:
  """As `pairs`, but the better answer is the problem's own solution: there is a pair wherever a row is wrong.

  Args:
    reward: as for `pairs`; 1 for what is right.
    of: as for `pairs`; its rows have `solutions` [B, A], as those of a text task have, and room for them.
    to: as for `pairs`.
  """

  def scored(models: Models, rows: Rows, key: Key) -> Rows:
    batch = reward(models, rows[of], key)
    return {**rows, of: batch, to: solution_and_worst(batch)}

  return scored


def verdicts(reward: Annotate, *, of: str, to: str, success: float) -> Annotate:
  """Another learner's rows: the scored ones, each with the verdict whether it is right, for `pointwise`.

  Args:
    reward: as for `pairs`.
    of: learner whose rows it scores.
    to: learner that gets the same rows with `preferred` [B].
    success: a row with at least this reward is right.
  """

  def scored(models: Models, rows: Rows, key: Key) -> Rows:
    batch = reward(models, rows[of], key)
    return {**rows, of: batch, to: {**batch, 'preferred': batch['rewards'] >= success}}

  return scored


def in_turn(first: Annotate, second: Annotate) -> Annotate:
  """Two rewards, one after the other; where both say the same column, the second has the last word.

  Args:
    first: a section of its own.
    second: a section of its own, which sees what the first has said.
  """

  def both(models: Models, rows: Rows, key: Key) -> Rows:
    first_key, second_key = jax.random.split(key)
    return second(models, first(models, rows, first_key), second_key)

  return both


def best_and_worst(batch: Batch) -> Batch:
  """The best and the worst row of each group, as comparisons: two rows behind one another, the better first.

  Args:
    batch: rows [B, T] with `rewards` and `groups` [B].
  Returns:
    [2 * (B // 2)] rows, for there are no more groups whose rewards differ: `tokens, valid`, and
    `action_mask`, `prompt_lengths`, `rewards` where they are there; `preferred`, `groups` and `weights`, 1
    for the rows of such groups and 0 for what fills the batch up.
  """
  best, worst, first = extremes(batch)
  rewards = batch['rewards']
  differ = first & (rewards[best] > rewards[worst])
  pairs = jnp.argsort(~differ, stable=True)[: len(rewards) // 2]
  return _compared(_rows(batch, best[pairs]), _rows(batch, worst[pairs]), differ[pairs])


def solution_and_worst(batch: Batch) -> Batch:
  """The solution of each problem and the worst of its answers, as `best_and_worst`; [2B] rows.

  Args:
    batch: rows with `rewards`, `groups` and `solutions`, as `against_solutions` says.
  """
  _, worst, first = extremes(batch)
  wrong = first & (batch['rewards'][worst] < 1)
  names = ('prompt_lengths', 'solutions')
  solved = text.demonstrations({'prompts': batch['tokens'], **{name: batch[name] for name in names}})
  wide = batch['tokens'].shape[1]
  solved = {name: x[:, :wide] if x.ndim == 2 else x for name, x in solved.items()}
  solved['rewards'] = jnp.ones(len(first))
  return _compared(_rows(solved, worst), _rows(batch, worst), wrong)


def extremes(batch: Batch) -> tuple[jax.Array, jax.Array, jax.Array]:
  """The best and the worst row of each row's group [B], and which rows are the first of theirs.

  A row that was not scored (NaN) is neither, but where its group has no other.
  """
  rewards, groups = batch['rewards'], batch['groups']
  same, last = groups[:, None] == groups[None], jnp.finfo(jnp.float32).max
  known = lambda x: jnp.where(jnp.isnan(rewards), x, rewards)[None]
  best = jnp.argmax(jnp.where(same, known(-last), -jnp.inf), axis=1)
  worst = jnp.argmin(jnp.where(same, known(last), jnp.inf), axis=1)
  return best, worst, jnp.argmax(same, axis=1) == jnp.arange(len(groups))


_COLUMNS = ('tokens', 'valid', 'action_mask', 'prompt_lengths', 'rewards')  # of rows, that pairs keep


def _rows(batch: Batch, at: jax.Array) -> Batch:
  return {name: batch[name][at] for name in _COLUMNS if name in batch}


def _compared(chosen: Batch, rejected: Batch, counts: jax.Array) -> Batch:
  """Rows of comparisons, of which those count whose entry [P] is True."""
  side_by_side = lambda a, b: jnp.stack([a, b], axis=1).reshape(-1, *a.shape[1:])
  rows = {name: side_by_side(chosen[name], rejected[name]) for name in rejected if name in chosen}
  pairs = jnp.arange(2 * len(counts)) // 2
  return {
      **rows, 'groups': pairs, 'preferred': jnp.arange(2 * len(counts)) % 2 == 0,
      'weights': jnp.repeat(counts, 2).astype(jnp.float32),
  }
