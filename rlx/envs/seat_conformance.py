"""The contract of a world of seats, as a function that a test calls: `check_seat_task(my_world)`.

It plays episodes of random words, half of which mean something, and says in a sentence what is wrong.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.conformance import same_replies
from rlx.envs.seats import SeatTask
from rlx.envs.text import EOS_ID

_FIRST_CHARACTER = 2  # tokens below are padding and end


def check_seat_task(task: SeatTask, *, num: int = 128, max_turns: int = 24) -> None:
  """Raises `ValueError` where a world breaks the contract of `rlx.envs.seats.SeatTask`.

  Args:
    task: any world of seats.
    num: problems a draw, and episodes.
    max_turns: actions after which an episode is left.
  Raises:
    ValueError: a property that does not hold: prompts that are no characters, a reply that depends on what
      stands behind an action, an observation that is none, payoffs that are not finite, nothing that is ever
      understood, or no episode that ever ends.
  """
  sample = jax.jit(task.sample, static_argnums=(1, 2))
  problems = sample(jax.random.key(0), num, False)
  for held_out in (False, True):
    _check_prompts(task, jax.device_get(sample(jax.random.key(1), num, held_out)), num)
  play = jax.jit(jax.vmap(lambda problem, key: _play(task, problem, key, max_turns=max_turns)))
  played = jax.device_get(play(problems, jax.random.split(jax.random.key(2), num)))
  counts = played['counts']
  _require(
      np.isfinite(played['rewards'][counts]).all(), 'a payoff is not finite; what seats are given are numbers'
  )
  _require(
      played['same'][counts].all(), 'what stands behind `length`, or how long the array is, changes a reply'
  )
  _require(played['understood'][counts].any(), 'no action of random words is ever understood')
  _require(played['over'].any(), f'no episode ends in {max_turns} actions')
  lengths, observations = played['lengths'][counts], played['observations'][counts]
  inside = np.arange(task.observation_columns)[None, None] < lengths[..., None]
  known = (observations >= 1) & (observations < task.vocab_size)
  _require(
      observations.shape[1:] == (len(task.seats), task.observation_columns) and known[inside].all()
      and (lengths <= task.observation_columns).all(),
      'observations are [seats, observation_columns] tokens of the task; these are not',
  )


def _require(condition, message: str) -> None:
  if not condition:
    raise ValueError(message)


def _check_prompts(task: SeatTask, problems, num: int) -> None:
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  shape = (num, len(task.seats), task.prompt_columns)
  _require(prompts.shape == shape, f'prompts are {prompts.shape}; a task with these seats has {shape}')
  inside = np.arange(task.prompt_columns)[None, None] < lengths[..., None]
  characters = (prompts >= _FIRST_CHARACTER) & (prompts < task.vocab_size)
  _require(
      (lengths >= 1).all() and (inside == characters).all() and not prompts[~inside].any(),
      'a prompt is `prompt_lengths` characters from column 0 and then padding; one is not',
  )


def _play(task: SeatTask, problem, key: jax.Array, *, max_turns: int) -> dict[str, Any]:
  """An episode of random words, action by action, and what was found of each reply."""
  columns = task.answer_columns + 1

  def turn(carry, index):
    state, ended = carry
    keys = jax.random.split(jax.random.fold_in(key, index), 4)
    action = jax.random.randint(keys[0], (columns,), 1, task.vocab_size)
    single = jax.random.bernoulli(keys[1])
    length = jnp.where(single, 1, jax.random.randint(keys[2], (), 1, columns + 1))
    reply = task.act(state, action, length, keys[3])
    noisy = jnp.where(jnp.arange(columns) < length, action, EOS_ID)
    other = task.act(state, jnp.pad(noisy, (0, 3), constant_values=3), length, keys[3])
    told = {
        'counts': ~ended, 'same': same_replies(_heard(reply), _heard(other)), 'rewards': reply.rewards,
        'understood': reply.understood, 'lengths': reply.lengths, 'observations': reply.observations,
    }
    after = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, reply.state)
    return (after, ended | reply.ended), told

  (_, over), told = jax.lax.scan(turn, (task.start(problem), jnp.bool_(False)), jnp.arange(max_turns))
  return {**told, 'over': over}


def _heard(reply):
  """A reply, of whose observations what counts is left."""
  inside = jnp.arange(reply.observations.shape[1])[None] < reply.lengths[:, None]
  return reply._replace(observations=jnp.where(inside, reply.observations, 0))
