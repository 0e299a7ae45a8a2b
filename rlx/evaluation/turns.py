"""What a policy does in a world: whole episodes of held-out problems, and how they read, turn by turn."""

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine import turns as engine
from rlx.engine.decoding import Decoding
from rlx.engine.speaker import Speaker
from rlx.engine.turns import WHOLE, Rewriting, Turns
from rlx.envs.text import Task
from rlx.envs.turns import SUCCESS, TurnTask
from rlx.errors import at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.models.networks import Network
from rlx.rollout import cases, experience
from rlx.rollout.turns import as_world
from rlx.types import Batch, Models, World

TRANSCRIBED = (  # columns of a row that `transcript` reads
    'tokens', 'valid', 'action_mask', 'turns', 'prompt_lengths', 'token_rewards', 'understood',
)


def episodes(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, num_slots: int, turn_tokens: int,
    max_turns: int,
) -> Evaluation:
  """One episode of each of some held-out problems, without chance in what the policy says.

  Args:
    task: the world.
    policy: what is examined; the chance is taken out of its decoding.
    transcripts: how many episodes are handed back to be read.
    problems: how many held-out problems there are.
    num_slots: episodes that are in the loop at a time; 0 for all.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode.
  Returns:
    The evaluation; its metrics are `accuracy`, the share of episodes that were solved, `reward`, the mean
    return, `turns`, `understood`, `truncated_fraction`, and what the world tells of its episodes, by name.
  """
  return _played(
      task, policy, transcripts, policy.decoding.greedy, problems=problems, num_slots=num_slots,
      turns=Turns(turn_tokens, max_turns),
  )


def sampled_turns(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, num_slots: int, turn_tokens: int,
    max_turns: int,
) -> Evaluation:
  """`episodes` in which the policy draws as it does in the stage: how often it errs, not only whether.

  Args:
    task: as for `episodes`, as is all that follows.
    policy: what is examined, with its own decoding.
    transcripts: episodes to be read.
    problems: held-out problems.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode.
  Returns:
    The evaluation; its metrics are those of `episodes`, and `entropy`, in nats a token.
  """
  return _played(
      task, policy, transcripts, policy.decoding, problems=problems, num_slots=num_slots,
      turns=Turns(turn_tokens, max_turns),
      more=lambda models, asked, rows: {'entropy': _entropy(policy, models, rows)},
  )


def episodes_by(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, num_slots: int, turn_tokens: int,
    max_turns: int, column: str, values: Sequence[int],
) -> Evaluation:
  """`episodes` whose accuracy is told apart by a column of the problems, such as how many hops they take.

  Args:
    task: as for `episodes`, as is all that follows.
    policy: what is examined.
    transcripts: episodes to be read.
    problems: held-out problems.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode.
    column: of the problems, [N] whole numbers.
    values: of the column, each of which has a metric.
  Returns:
    The evaluation; its metrics are those of `episodes`, and `accuracy_V` for each value V; NaN where no
    problem has it.
  """

  def more(models: Models, asked: Batch, rows: Batch) -> dict[str, jax.Array]:
    del models
    solved = rows[f'episode/{SUCCESS}']
    return {f'accuracy_{value}': solved.mean(where=asked[column] == value) for value in values}

  return _played(
      task, policy, transcripts, policy.decoding.greedy, problems=problems, num_slots=num_slots,
      turns=Turns(turn_tokens, max_turns), more=more,
  )


def rewritten_episodes(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, num_slots: int, turn_tokens: int,
    max_turns: int, context: Callable[[TurnTask], Rewriting],
) -> Evaluation:
  """`episodes` whose contexts are rewritten when they are full, as in `rollout.turns.rewritten_episodes`.

  Args:
    task: as for `episodes`, as is all that follows.
    policy: what is examined; its `max_tokens` is the room of a row.
    transcripts: rows to be read; those of an episode follow each other.
    problems: held-out problems.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode, over all of its rows.
    context: what becomes of a full row (`rollout/contexts.py`).
  Returns:
    The evaluation; its metrics are those of `episodes`, and `rows`, the mean rows of an episode.
  """
  return _played(
      task, policy, transcripts, policy.decoding.greedy, problems=problems, num_slots=num_slots,
      turns=Turns(turn_tokens, max_turns), rewriting=context(as_world(task)),
  )


def experienced_episodes(
    task: Task, policy: Speaker, transcripts: int, *, problems: int, num_slots: int, turn_tokens: int,
    max_turns: int,
) -> Evaluation:
  """`episodes` with the lessons so far in their prompts, where the stage keeps some.

  Args:
    task: a world with room for lessons; all else is as for `episodes`.
    policy: what is examined.
    transcripts: episodes to be read.
    problems: held-out problems.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode.
  Raises:
    ConfigError: the world has no room for lessons.
  """
  experience.check_lessons(task)

  def prepare(models: Models, world: World, asked: Batch) -> Batch:
    del models
    known = experience.MEMORY in world
    return experience.with_those_of(task, world[experience.MEMORY], asked) if known else asked

  return _played(
      task, policy, transcripts, policy.decoding.greedy, problems=problems, num_slots=num_slots,
      turns=Turns(turn_tokens, max_turns), prepare=prepare,
  )


def episodes_with_cases(
    task: Task, policy: Speaker, case_value: Network, transcripts: int, *, problems: int, num_slots: int,
    turn_tokens: int, max_turns: int, retrieval: Callable,
) -> Evaluation:
  """`episodes` with the best case of the bank in each prompt, where the stage has a bank.

  Args:
    task: a world with room for a case; all else is as for `episodes`.
    policy: what is examined.
    case_value: Q(state, case).
    transcripts: episodes to be read.
    problems: held-out problems.
    num_slots: episodes in the loop at a time.
    turn_tokens: the most tokens of an action.
    max_turns: the most turns of an episode.
    retrieval: as for the rollout.
  Raises:
    ConfigError: the world has no room for a case.
  """
  cases.check_cases(task)

  def prepare(models: Models, world: World, asked: Batch) -> Batch:
    if cases.MEMORY not in world:
      return asked
    bank = world[cases.MEMORY]
    return cases.with_case(
        task, case_value, models['case_value'], bank, asked, retrieval=retrieval,
        noise=jnp.zeros((problems, bank['paid'].shape[0])), use=jnp.ones(problems, bool),
    )

  return _played(
      task, policy, transcripts, policy.decoding.greedy, problems=problems, num_slots=num_slots,
      turns=Turns(turn_tokens, max_turns), prepare=prepare,
  )


def _entropy(policy: Speaker, models: Models, rows: Batch) -> jax.Array:
  """[] mean over episodes of the mean entropy of what was said."""
  _, entropy = policy.score(models['policy'], rows)
  return jnp.nanmean(jnp.mean(entropy, axis=1, where=rows['action_mask']))


def _played(
    task: Task, policy: Speaker, transcripts: int, decoding: Decoding, *, problems: int, num_slots: int,
    turns: Turns, rewriting: Rewriting = WHOLE,
    more: Callable[[Models, Batch, Batch], dict[str, jax.Array]] = lambda models, asked, rows: {},
    prepare: Callable[[Models, World, Batch], Batch] = lambda models, world, asked: asked,
) -> Evaluation:
  at_least(1, problems=problems, max_turns=turns.max_turns)
  at_least(0, num_slots=num_slots)
  world_of = as_world(task)
  engine.check(world_of, policy.decoding, turns, rewriting)

  def ask(models: Models, world: World):
    problem_key, world_key = jax.random.split(jax.random.key(PROBLEMS_SEED))
    asked = prepare(models, world, world_of.sample(problem_key, problems, True))
    rows = engine.sample(
        models['policy'], policy.model, world_of, asked, world_key, group_size=1,
        decoding=decoding, turns=turns, num_slots=num_slots, world_key=world_key, rewriting=rewriting,
    )
    first = rows  # of each episode
    if rewriting.rows > 1:
      first = {name: x[:: rewriting.rows] for name, x in rows.items()}
    told = {name.partition('/')[2]: x.mean() for name, x in first.items() if name.startswith('episode/')}
    metrics = {
        'accuracy': told.pop(SUCCESS),
        'reward': first['rewards'].mean(),
        'turns': first['turns/mean'].mean(),
        'understood': first['turns/understood'].mean(),
        'truncated_fraction': first['truncated'].mean(dtype=jnp.float32),
        **({'rows': first['turns/rows'].mean()} if rewriting.rows > 1 else {}),
        **told,
        **more(models, asked, rows),
    }
    shown = {name: rows[name][:transcripts] for name in TRANSCRIBED}
    return metrics, {**shown, 'solved': rows[f'episode/{SUCCESS}'][:transcripts] == 1}

  def read(answer):
    metrics, rows = answer
    rows = jax.tree.map(np.asarray, rows)
    told = []
    for i, length in enumerate(rows['prompt_lengths']):
      row = {name: x[i] for name, x in rows.items()}
      if not row['action_mask'].any():  # of an episode that needed fewer rows
        continue
      told.append({
          'prompt': world_of.decode(row['tokens'][:length]), 'completion': transcript(world_of, row),
          'solution': '', 'correct': bool(row['solved']),
      })
    return {name: float(x) for name, x in metrics.items()}, told

  return Evaluation(ask=ask, read=read)


def turns_of(task: Task, row: Mapping[str, np.ndarray]) -> list[dict]:
  """The turns of an episode: `action`, `observation` (what was read behind it), `reward` and `understood`.

  Args:
    task: decodes.
    row: columns of one row of `engine.turns.as_rows`, on the host.
  """
  tokens, turns, said = row['tokens'], row['turns'], row['action_mask']
  heard = row['valid'] & ~said & (turns >= 0)
  found = []
  for turn in range(int(turns.max(where=row['valid'], initial=-1)) + 1):
    here = turns == turn
    found.append({
        'action': task.decode(tokens[here & said]),
        'observation': task.decode(tokens[here & heard]),
        'reward': float(row['token_rewards'][here & said].sum()),
        'understood': bool(row['understood'][here & said].any()),
    })
  return found


def transcript(task: Task, row: Mapping[str, np.ndarray]) -> str:
  """An episode behind its prompt as text, a line for what was said and one for what was answered."""
  lines = ['']
  for turn in turns_of(task, row):
    reward = f'  [{turn["reward"]:+g}]' if turn['reward'] else ''
    lines.append(f'> {turn["action"]}{reward}{"" if turn["understood"] else "  (not understood)"}')
    lines += [turn['observation']] if turn['observation'] else []
  return '\n'.join(lines)
