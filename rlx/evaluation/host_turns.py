"""What a policy does with tools in Python: whole episodes on held-out rows, with worlds of their own."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.data.dataset import Dataset
from rlx.engine.speaker import Speaker
from rlx.envs.host.calculator import right_results
from rlx.errors import ConfigError, at_least
from rlx.evaluation.evaluation import HostEvaluation
from rlx.evaluation.text import as_transcripts, check_function, scored_by
from rlx.rewards.host import HostReward
from rlx.rollout.host_turns import Table
from rlx.rollout.toolbox import Toolbox
from rlx.types import Models, World

_NO_CHANCE_SEED = 0


def rewarded_episodes(
    task: Dataset, policy: Speaker, toolbox: Toolbox, reward: HostReward, transcripts: int, *, problems: int,
    num_slots: int, turn_tokens: int, max_turns: int, accuracy: str,
) -> HostEvaluation:
  """One greedy episode of each of the first held-out rows, scored by the run's reward functions.

  Args:
    task: the data set.
    policy: what is examined; the chance is taken out of its decoding.
    toolbox: what may be called.
    reward: of the run.
    transcripts: how many are handed back to be read.
    problems: how many held-out rows are asked.
    num_slots: episodes in the loop at a time; 0 for all.
    turn_tokens: the most tokens of a turn.
    max_turns: the most turns of an episode.
    accuracy: name of the reward function by which a row is right: the share to which it gives 1.
  Returns:
    The evaluation; its metrics are those of `text.rewarded` and what `judged_episodes` tells of tools.
  Raises:
    ValueError: there is no such function, or there are fewer held-out rows.
  """
  check_function(reward, accuracy)
  table = _table(task, policy, toolbox, num_slots, turn_tokens)
  asked, ask = _asked(table, task, problems, max_turns)

  def read(rows):
    tokens = [row[said].tolist() for row, said in zip(rows['tokens'], rows['action_mask'], strict=True)]
    told, right = scored_by(reward, asked['rows'], tokens, accuracy=accuracy)
    return {**_told(rows), **told}, as_transcripts(task, asked, _texts(task, rows, transcripts), right)

  return HostEvaluation(ask=ask, read=read, host=table)


def marked_episodes(
    task: Dataset, policy: Speaker, toolbox: Toolbox, reward: HostReward, transcripts: int, *, problems: int,
    num_slots: int, turn_tokens: int, max_turns: int, accuracy: str,
) -> HostEvaluation:
  """As `rewarded_episodes`, and which calculations that are marked in the texts have the right result.

  Whoever wrote it, the policy or a tool: `<<48/2=24>>`. The arguments are those of `rewarded_episodes`.

  Returns:
    The evaluation; its metrics are those of `rewarded_episodes`, `marks` (of an episode) and `right_marks`
    (their share; 0 where there are none).
  """
  asked = rewarded_episodes(
      task, policy, toolbox, reward, transcripts, problems=problems, num_slots=num_slots,
      turn_tokens=turn_tokens, max_turns=max_turns, accuracy=accuracy,
  )

  def read(rows):
    metrics, shown = asked.read(rows)
    right = [is_right for text in _texts(task, rows, problems) for is_right in right_results(text)]
    marks = {'marks': len(right) / problems, 'right_marks': sum(right) / max(len(right), 1)}
    return {**metrics, **marks}, shown

  return dataclasses.replace(asked, read=read)


def judged_episodes(
    task: Dataset, policy: Speaker, toolbox: Toolbox, transcripts: int, *, problems: int, num_slots: int,
    turn_tokens: int, max_turns: int,
) -> HostEvaluation:
  """One greedy episode of each of the first held-out rows, judged by its world's `get_reward()`.

  Args:
    task: the data set.
    policy: as for `rewarded_episodes`, like all that follows.
    toolbox: its worlds have rewards.
    transcripts: how many are handed back.
    problems: how many held-out rows are asked.
    num_slots: episodes in the loop.
    turn_tokens: of a turn.
    max_turns: of an episode.
  Returns:
    The evaluation; its metrics are `reward`, `accuracy` (the share with a reward of 1), `turns`, `calls`,
    `failed_calls`, `understood` and `truncated_fraction`.
  Raises:
    ConfigError: the worlds have no rewards.
  """
  if not toolbox.rewards:
    raise ConfigError(
        "the toolbox has no world with get_reward(); take evals.<name>.name='host_turns.rewarded_episodes'"
    )
  table = _table(task, policy, toolbox, num_slots, turn_tokens)
  asked, ask = _asked(table, task, problems, max_turns)

  def read(rows):
    rewards, right = rows['rewards'], rows['rewards'] == 1
    known = rewards[~np.isnan(rewards)]
    metrics = {'reward': float(known.mean()) if len(known) else 0.0, 'accuracy': float(right.mean())}
    return {**_told(rows), **metrics}, as_transcripts(task, asked, _texts(task, rows, transcripts), right)

  return HostEvaluation(ask=ask, read=read, host=table)


def _table(task, policy: Speaker, toolbox: Toolbox, num_slots: int, turn_tokens: int) -> Table:
  at_least(0, num_slots=num_slots)
  greedy = dataclasses.replace(policy, decoding=policy.decoding.greedy)
  return Table(task, greedy, toolbox, group_size=1, num_slots=num_slots, turn_tokens=turn_tokens)


def _asked(table: Table, task: Dataset, problems: int, max_turns: int):
  """The held-out rows, and the function that has episodes of them."""
  at_least(1, problems=problems, max_turns=max_turns)
  asked = task.held_out(problems)

  def ask(models: Models, world: World):
    del world
    return table.sample(
        models['policy'], jax.tree.map(jnp.asarray, asked), jax.random.key(_NO_CHANCE_SEED),
        record='episodes', max_turns=max_turns,
    )

  return asked, ask


def _told(rows) -> dict[str, float]:
  mean = lambda name: float(rows[name].mean())
  failed = sum(mean(name) for name in rows if name.startswith('tools/failed_'))
  return {
      'response_tokens': float(rows['action_mask'].sum(axis=1).mean()), 'turns': mean('turns/mean'),
      'calls': mean('tools/calls'), 'failed_calls': failed, 'understood': mean('turns/understood'),
      'truncated_fraction': mean('truncated'),
  }


def _texts(task: Dataset, rows, num: int) -> list[str]:
  """What was said and read in the first episodes."""
  behind = rows['valid'] & (np.arange(rows['valid'].shape[1])[None] >= rows['prompt_lengths'][:, None])
  return [task.decode(row[there]) for row, there in zip(rows['tokens'][:num], behind[:num], strict=True)]
