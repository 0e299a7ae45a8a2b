"""A world of turns for policies without words: what is read is a vector, and actions are a list of texts.

So what plays a game in text, and what plays it as a control environment, play the same game.
"""

from collections.abc import Callable
import math

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.control.environment import Discrete, Environment, timestep
from rlx.envs.records import agrees
from rlx.envs.turns import SUCCESS, TurnTask
from rlx.errors import ConfigError
from rlx.types import Key


def chosen_words(*, game: Callable[[], TurnTask], words: tuple[str, ...], max_turns: int) -> Environment:
  """Episodes of a world's training problems, whose actions are words.

  An observation is what is read, each token as one of V numbers that is 1. `info` has `wins`, whether the
  episode was solved, and `matches`, the share of its turns so far in which the expert would have done the
  same.

  Args:
    game: makes the world; in a config a section with its `name`.
    words: the actions, as they are said without an end token.
    max_turns: of an episode; one that has not ended then is lost, and nothing comes after it.
  Raises:
    ConfigError: there are no words, or the world does not know one of their characters.
  """
  world = game()
  if not words:
    raise ConfigError('words=(): a policy that chooses needs something to choose from')
  try:
    tokens = [world.encode(word) for word in words]
  except ValueError as error:
    raise ConfigError(f'words={words}: {error}') from error
  longest = max(len(word) for word in tokens) + 1
  actions = jnp.array([[*word, text.EOS_ID, *[0] * (longest - 1 - len(word))] for word in tokens], jnp.int32)
  lengths = jnp.array([len(word) + 1 for word in tokens], jnp.int32)
  columns = max(world.prompt_columns, world.observation_columns)

  def observe(seen: jax.Array, length: jax.Array) -> jax.Array:
    known = (jnp.arange(seen.shape[0]) < length)[:, None]
    numbers = jax.nn.one_hot(seen, world.vocab_size) * known
    return jnp.pad(numbers, ((0, columns - seen.shape[0]), (0, 0))).reshape(-1)

  def reset(key: Key):
    problem = jax.tree.map(lambda x: x[0], world.sample(key, 1, False))
    state = (world.start(problem), jnp.float32(0), jnp.float32(0))
    return state, observe(problem['prompts'], problem['prompt_lengths'])

  def step(state, action: jax.Array, key: Key):
    inner, turns, matches = state
    word = (actions[action], lengths[action])
    reply = world.act(inner, *word, key)
    turns = turns + 1
    matches = matches + agrees(word, world.expert(inner), columns=world.answer_columns)
    return timestep(
        (reply.state, turns, matches), observe(reply.observation, reply.length), reply.reward,
        terminated=reply.ended | (turns >= max_turns), wins=reply.info[SUCCESS], matches=matches / turns,
    )

  return Environment(
      reset=reset, step=step, observation_shape=(columns * world.vocab_size,), actions=Discrete(len(words)),
      random_return=math.nan, expert_return=world.expert_return,
  )
