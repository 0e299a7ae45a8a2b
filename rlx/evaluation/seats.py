"""What speakers get at the seats of a world, and versions of one model against each other.

Episodes are of held-out problems, and speakers draw as in the run: what is best may be a matter of chance.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine import seats as engine
from rlx.engine.speaker import Speaker
from rlx.engine.turns import Turns
from rlx.envs.seats import SUCCESS, SeatTask
from rlx.envs.text import Task
from rlx.errors import ConfigError, at_least
from rlx.evaluation.evaluation import PROBLEMS_SEED, Evaluation
from rlx.evaluation.turns import TRANSCRIBED
from rlx.rollout.seats import as_table
from rlx.types import Batch, Models, World

PLAYER = 'player'


def episodes(
    task: Task, speakers: Mapping[str, Speaker], transcripts: int, *, problems: int, turn_tokens: int,
    max_turns: int,
) -> Evaluation:
  """An episode of each of some held-out problems.

  Args:
    task: the world.
    speakers: seat -> who sits there, by `names`.
    transcripts: how many episodes are handed back to be read, as `replay` writes them.
    problems: how many.
    turn_tokens: the most tokens of an action.
    max_turns: the most actions of an episode, of all seats together.
  Returns:
    The evaluation; its metrics are `payoff_<seat>`, the mean of what a seat got,
    `truncated_fraction`, and what the world tells of its episodes, by name.
  Raises:
    ValueError: as the rollout `seats.episodes`.
  """
  at_least(1, problems=problems, max_turns=max_turns)
  world_of = as_table(task)
  play = _playing(world_of, speakers, problems, 1, Turns(turn_tokens, max_turns))

  def ask(models: Models, world: World):
    del world
    rows = play(models)
    shown = {seat: {name: x[name][:transcripts] for name in TRANSCRIBED} for seat, x in rows.items()}
    first, success = rows[world_of.seats[0]], f'episode/{SUCCESS}'
    # Nobody is right or wrong in a world that knows no success.
    solved = {'correct': first[success][:transcripts] == 1} if success in first else {}
    return described(rows), (shown, solved)

  def read(answer):
    metrics, (shown, solved) = jax.tree.map(np.asarray, answer)
    games = [
        {seat: {name: x[i] for name, x in rows.items()} for seat, rows in shown.items()}
        for i in range(min(transcripts, problems))
    ]
    told = [
        {'prompt': dealt(world_of, game), 'completion': replay(world_of, game), 'solution': ''}
        | {name: bool(x[i]) for name, x in solved.items()}
        for i, game in enumerate(games)
    ]
    return {name: float(x) for name, x in metrics.items()}, told

  return Evaluation(ask=ask, read=read)


def _playing(
    task: SeatTask, speakers: Mapping[str, Speaker], problems: int, group_size: int, turns: Turns
) -> Callable[[Models], dict[str, Batch]]:
  """`models -> {seat: rows}` of so many episodes of each held-out problem, always of the same noise."""
  engine.check(task, engine.decoding_of(task, speakers), turns)

  def play(models: Models) -> dict[str, Batch]:
    problem_key, key, world_key = jax.random.split(jax.random.key(PROBLEMS_SEED), 3)
    return engine.sample(
        engine.seen(models, task), speakers, task, task.sample(problem_key, problems, True), key,
        group_size=group_size, turns=turns, world_key=world_key,
    )

  return play


def dealt(task: SeatTask, game: Mapping[str, Mapping[str, np.ndarray]]) -> str:
  """What each seat is told before anyone speaks, a line for each; arguments as for `replay`."""
  prompt = lambda row: task.decode(row['tokens'][: row['prompt_lengths']])
  return '\n'.join(f'{seat}: {prompt(game[seat])}' for seat in task.seats)


def replay(task: SeatTask, game: Mapping[str, Mapping[str, np.ndarray]]) -> str:
  """An episode as text: what each seat read (`<`) and said (`>`), a line for each, in the order of speaking.

  Args:
    task: the world; decodes.
    game: seat -> columns of its row of `engine.seats.sample`, on the host.
  """
  width = max(map(len, task.seats))
  lines, spoken = [], dict.fromkeys(task.seats, 0)
  for place in range(sum(_num_actions(row) for row in game.values())):
    seat = task.seats[task.order[place % len(task.order)]]
    row, turn = game[seat], spoken[seat]
    said, behind = row['action_mask'], np.arange(len(row['valid'])) >= row['prompt_lengths']
    read = task.decode(row['tokens'][behind & row['valid'] & ~said & (row['turns'] == turn - 1)])
    here = said & (row['turns'] == turn)
    reward = float(row['token_rewards'][here].sum())
    lines += [f'{seat:>{width}} < {read}'] if read else []
    lines.append(
        f'{seat:>{width}} > {task.decode(row["tokens"][here])}' + (f'  [{reward:+g}]' if reward else '')
        + ('' if row['understood'][here].any() else '  (not understood)')
    )
    spoken[seat] += 1
  return '\n'.join(lines)


def _num_actions(row: Mapping[str, np.ndarray]) -> int:
  return int(row['turns'].max(where=row['action_mask'], initial=-1)) + 1


def described(rows: Mapping[str, Batch]) -> dict[str, jax.Array]:
  """The metrics of `episodes`, of rows by seat."""
  first = next(iter(rows.values()))
  told = {name.partition('/')[2]: x.mean() for name, x in first.items() if name.startswith('episode/')}
  return {
      **told, **{f'payoff_{seat}': batch['payoffs'].mean() for seat, batch in rows.items()},
      'truncated_fraction': first['truncated'].mean(dtype=jnp.float32),
  }


def best_of(
    task: Task, speakers: Mapping[str, Speaker], *, problems: int, samples: int, by: str, turn_tokens: int,
    max_turns: int,
) -> Evaluation:
  """Several episodes of each of some held-out problems, and the one of them that a seat is paid most for.

  Args:
    task: the world, as for `episodes`.
    speakers: seat -> who sits there.
    problems: how many.
    samples: episodes of each.
    by: the seat; where several of its episodes are paid alike, each of them counts as much.
    turn_tokens: the most tokens of an action.
    max_turns: the most actions of an episode.
  Returns:
    The evaluation; its metrics are those of `episodes`, of all of them, `one`, their success, `chosen`, the
    success of those that are taken, `gain`, the difference, and `any`, the share of problems with a success.
  Raises:
    ValueError: as the rollout `seats.episodes`.
  """
  at_least(1, problems=problems, samples=samples, max_turns=max_turns)
  world_of = as_table(task)
  if by not in world_of.seats:
    raise ConfigError(f'by={by!r} is none of the seats {list(world_of.seats)}')
  play = _playing(world_of, speakers, problems, samples, Turns(turn_tokens, max_turns))

  def ask(models: Models, world: World):
    del world
    rows = play(models)
    success, payoffs = rows[by][f'episode/{SUCCESS}'], rows[by]['payoffs']
    lists = lambda x: x.reshape(problems, samples)
    return {**described(rows), **chosen_by(lists(payoffs), lists(success))}

  return Evaluation(ask=ask, read=lambda answer: ({name: float(x) for name, x in answer.items()}, []))


def chosen_by(payoffs: jax.Array, success: jax.Array) -> dict[str, jax.Array]:
  """The metrics of `best_of` alone, of payoffs and successes [problems, samples]."""
  best = payoffs == payoffs.max(axis=1, keepdims=True)
  one, chosen = success.mean(), jnp.mean(jnp.sum(success * best, axis=1) / best.sum(axis=1))
  return {'one': one, 'chosen': chosen, 'gain': chosen - one, 'any': success.max(axis=1).mean()}


def versions(
    task: Task, speakers: Mapping[str, Speaker], *, size: int, problems: int, turn_tokens: int, max_turns: int
) -> Evaluation:
  """Versions of a model that play each other, each at every seat as often.

  Args:
    task: a world of two seats or more.
    speakers: `player`, by `names`, whose parameters are those of all versions, stacked: leaves [N, ...].
    size: N.
    problems: an episode of each, for each two of them and each seat.
    turn_tokens: the most tokens of an action.
    max_turns: the most actions of an episode, of all seats together.
  Returns:
    The evaluation; its metrics are `<i>_<j>`, what version i gets on average at one seat where version j has
    the others.
  Raises:
    ConfigError: the world has one seat, or the speakers are others.
  """
  at_least(1, problems=problems, max_turns=max_turns, size=size)
  world_of = as_table(task)
  if set(speakers) != {PLAYER} or len(world_of.seats) < 2:
    raise ConfigError(
        f'seats.versions has the speakers {sorted(speakers)} and {len(world_of.seats)} seats; it is one, '
        f'{PLAYER}, and the world has 2 seats at least'
    )
  at_seats, turns = dict.fromkeys(world_of.seats, speakers[PLAYER]), Turns(turn_tokens, max_turns)
  engine.check(world_of, engine.decoding_of(world_of, at_seats), turns)

  def ask(models: Models, world: World):
    del world
    problem_key, key, world_key = jax.random.split(jax.random.key(PROBLEMS_SEED), 3)
    asked = world_of.sample(problem_key, problems, True)
    member = lambda i: jax.tree.map(lambda x: x[i], models[PLAYER])

    def meet(who: tuple[jax.Array, ...]) -> jax.Array:
      own, other, place = who
      params = {
          seat: member(jnp.where(place == i, own, other)) for i, seat in enumerate(world_of.seats)
      }
      rows = engine.sample(
          params, at_seats, world_of, asked, key, group_size=1, turns=turns, world_key=world_key
      )
      return jnp.stack([rows[seat]['payoffs'].mean() for seat in world_of.seats])[place]

    shape = (size, size, len(world_of.seats))
    everyone = tuple(x.reshape(-1) for x in jnp.indices(shape))
    return jax.lax.map(meet, everyone).reshape(shape).mean(axis=-1)

  def read(payoffs):
    return {f'{i}_{j}': float(payoffs[i, j]) for i in range(size) for j in range(size)}, []

  return Evaluation(ask=ask, read=read)
