"""Records of games as a text task: a state is the prompt, the answer reasons and names the recorded action.

Somebody who plays well has played some games of a world of turns (`envs/turns.py`). Each turn of theirs is a
problem: what was seen, and the action that was taken. An answer is a note, a sign, and the action; what is
in front of the sign is thought, and only the action is held against the record. So a policy that never plays
learns of what was played, by imitation or paid for agreement, and can then play, one state at a time.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.text import Task
from rlx.envs.turns import TurnTask, said
from rlx.errors import at_least
from rlx.types import Batch

_GAMES_SEED = 0  # the records are the same for every run
Action = tuple[jax.Array, jax.Array]  # tokens [A], length []


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordTask(Task):
  """Turns of recorded games.

  Attributes:
    game: the world that was played.
    named: `completion [C] -> (action [C], length [])`, the action of an answer, as `game.act` takes it.
  """

  game: TurnTask
  named: Callable[[jax.Array], tuple[jax.Array, jax.Array]]


def records(
    *, game, games: int, max_turns: int, note: Callable[[TurnTask], Callable], separator: str
) -> RecordTask:
  """The turns of games that the world's expert has played; held-out ones are of games that are held out.

  The same state can come in games of both kinds, for what is held out are games.

  Args:
    game: makes the world; in a config a section with its `name`.
    games: recorded, of training problems; of held-out ones there are as many.
    max_turns: of a game.
    note: `world -> (seen [C] -> tokens [K])`, what an annotator writes in front of the action, in a section
      of its own; it reads what the prompt says, and nothing else.
    separator: a character of the world, between the note and the action.
  """
  at_least(1, games=games, max_turns=max_turns)
  world: TurnTask = game()
  columns = max(world.prompt_columns, world.observation_columns)
  sign, write = jnp.int32(text.one_token(world, separator)), note(world)
  kept = {held_out: _written(world, games, max_turns, columns, held_out, write, sign) for held_out in (0, 1)}
  answer_columns = kept[0]['solutions'].shape[1]

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    rows = kept[int(held_out)]
    which = jax.random.randint(key, (num,), 0, len(rows['prompt_lengths']))
    return {name: jnp.asarray(x)[which] for name, x in rows.items()}

  def named(completion: jax.Array):
    return named_in(completion, sign)

  def verify(problems: Batch, completions: jax.Array) -> jax.Array:
    of = lambda tokens: jax.vmap(named)(tokens)
    agree = jax.vmap(lambda one, other: agrees(one, other, columns=world.answer_columns))
    return agree(of(completions), of(problems['solutions'])).astype(jnp.float32)

  return RecordTask(
      alphabet=world.alphabet, prompt_columns=columns, answer_columns=answer_columns, sample=sample,
      verify=verify, game=world, named=named,
  )


def named_in(completion: jax.Array, sign: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The action of an answer [C], behind the first sign in it, and its length; all of it where it has none."""
  places, is_end = jnp.arange(completion.shape[0]), completion == text.EOS_ID
  inside = (jnp.cumsum(is_end) - is_end == 0) & (completion != text.PAD_ID)
  signs = inside & (completion == sign)
  begin = jnp.where(jnp.any(signs), jnp.argmax(signs) + 1, 0)
  moved = jnp.pad(jnp.where(inside, completion, text.PAD_ID), (0, completion.shape[0]))
  action = jax.lax.dynamic_slice_in_dim(moved, begin, completion.shape[0])
  return action, jnp.sum(inside & (places >= begin), dtype=jnp.int32)


def agrees(one: Action, other: Action, *, columns: int) -> jax.Array:
  """[] bool, whether two actions (tokens, length) say the same; an empty one says nothing.

  Args:
    one: an action.
    other: another one.
    columns: of the longest action that means something, its end token included.
  """
  here, there = (said(*action, columns) for action in (one, other))
  return jnp.all(here == there) & (here[0] != text.PAD_ID)


def _written(world: TurnTask, games, max_turns, columns, held_out, write, sign) -> dict[str, np.ndarray]:
  """Turns [M] as problems: `prompts`, `prompt_lengths`, `solutions`."""
  problem_key, key = jax.random.split(jax.random.fold_in(jax.random.key(_GAMES_SEED), held_out))
  problems = world.sample(problem_key, games, bool(held_out))
  played = jax.jit(jax.vmap(lambda problem, key: _game(world, problem, key, max_turns, columns)))
  turns = jax.tree.map(np.asarray, played(problems, jax.random.split(key, games)))
  turns = {name: x[turns['there']] for name, x in turns.items()}
  answer = lambda seen, action: jnp.concatenate([write(seen), sign[None], action]).astype(jnp.int32)
  solutions = np.asarray(jax.vmap(answer)(turns['seen'], turns['action']))
  return {
      'prompts': turns['seen'].astype(np.int32), 'prompt_lengths': turns['length'].astype(np.int32),
      'solutions': solutions,
  }


def _game(world: TurnTask, problem: Batch, key, max_turns: int, columns: int):
  """What the expert saw and did, turn by turn, and whether there was that turn."""
  wide = lambda tokens, length: jnp.pad(
      jnp.where(jnp.arange(tokens.shape[0]) < length, tokens, text.PAD_ID), (0, columns - tokens.shape[0])
  )

  def turn(carry, index):
    state, seen, length, over = carry
    action, said_tokens = world.expert(state)
    reply = world.act(state, action, said_tokens, jax.random.fold_in(key, index))
    told = {'seen': seen, 'length': length, 'action': action, 'there': ~over}
    after = (reply.state, wide(reply.observation, reply.length), reply.length, over | reply.ended)
    return jax.tree.map(lambda new, old: jnp.where(over, old, new), after, carry), told

  first = wide(problem['prompts'], problem['prompt_lengths'])
  carry = (world.start(problem), first, problem['prompt_lengths'], jnp.bool_(False))
  return jax.lax.scan(turn, carry, jnp.arange(max_turns))[1]
