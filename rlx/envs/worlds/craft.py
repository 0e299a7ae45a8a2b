"""A kitchen whose recipes nobody tells: `F` -> `A` -> `+A` -> `C` -> `#A` -> ...

Things have letters. The first ones are at hand, each of the others is made of two earlier ones, and which two
is the kitchen's secret, always the same. The prompt names the dish, and what there is already; an action
names what is to be made. An observation is a sign (`+` made, `#` something is missing, `=` there is one
already, `?` not understood) and everything that there is. With `event_reward`, each thing that the dish needs
is worth something when it is made first.
"""

from collections.abc import Callable
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, compact, index_in, said, with_end
from rlx.errors import between
from rlx.types import Batch

_SIGNS, _LETTERS = '+#=?', 'ABCDEFGHIJ'
_SEED = 0  # of the recipes


@dataclasses.dataclass(frozen=True, kw_only=True)
class KitchenTask(TurnTask):
  """A kitchen whose things have numbers too: states are `{'dish', 'given', 'there' [things] bool}`.

  Attributes:
    things: how many there are.
    make: `(state, thing []) -> Reply`, what comes of an action that names a thing.
  """

  things: int
  make: Callable[[Any, jax.Array], Reply]


def craft(*, basics: int, dishes: int, event_reward: float, held_out_share: float) -> KitchenTask:
  """Episodes in a kitchen; the reward is 1 for the dish, `event_reward` of it for the events on the way.

  Args:
    basics: things at hand, at least 2.
    dishes: things that are made of others, at least 1; 10 things in all at most.
    event_reward: in [0, 1], the share of the reward that is paid for things that the dish needs.
    held_out_share: in (0, 1), the part of all problems (dish, what there is already) that is never trained
      on.
  """
  between(2, 9, basics=basics)
  between(1, 10 - basics, dishes=dishes)
  between(0, 1, event_reward=event_reward)
  num = basics + dishes
  alphabet = _SIGNS + _LETTERS[:num]
  signs, letters = text.characters(_SIGNS, alphabet), text.characters(_LETTERS[:num], alphabet)
  parts, needs = (jnp.asarray(x) for x in _recipes(basics, dishes))

  def sample(key: jax.Array, num_problems: int, held_out: bool) -> Batch:
    number = text.draw_indices(
        key, num_problems, num_problems=dishes * 2**basics, held_out=held_out, held_out_share=held_out_share
    )
    dish, given = basics + number % dishes, number // dishes
    there = jnp.pad((given[:, None] >> jnp.arange(basics)[None] & 1) == 1, ((0, 0), (0, dishes)))
    tokens = jnp.concatenate([dish[:, None], jnp.broadcast_to(jnp.arange(num), there.shape)], axis=1)
    keep = jnp.pad(there, ((0, 0), (1, 0)), constant_values=True)
    prompts, lengths = jax.vmap(compact)(letters[tokens], keep)
    return {'dish': dish, 'there': there, 'prompts': prompts, 'prompt_lengths': lengths}

  def start(problem: Batch):
    return {'dish': problem['dish'], 'given': problem['there'], 'there': problem['there']}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    word = said(action, length, 2)
    thing, known = index_in(letters, word[0])
    understood, there = known & (word[1] == text.PAD_ID), state['there']
    ready = jnp.all(there | ~parts[thing])
    makes = understood & ready & ~there[thing]
    sign = jnp.where(understood, jnp.where(there[thing], 2, jnp.where(ready, 0, 1)), 3)
    after = {**state, 'there': there.at[thing].max(makes)}
    done = makes & (thing == state['dish'])
    events = jnp.sum(needs[state['dish']] & ~state['given'])
    event = makes & needs[state['dish'], thing] & ~done
    reward = (1 - event_reward) * done + event_reward * (event | done) / jnp.maximum(events + 1, 1)
    tokens = jnp.concatenate([signs[sign][None], letters])
    observation, told = compact(tokens, jnp.concatenate([jnp.ones(1, bool), after['there']]))
    solved = done.astype(jnp.float32)
    return Reply(after, observation, told, reward.astype(jnp.float32), done, understood, {SUCCESS: solved})

  def expert(state):
    missing = needs[state['dish']] & ~state['there']
    thing = jnp.where(jnp.any(missing), jnp.argmax(missing), state['dish'])  # the earliest one can be made
    return with_end(letters[thing][None], jnp.int32(1), 2)

  def make(state, thing: jax.Array) -> Reply:
    return act(state, letters[thing][None], jnp.int32(1), jax.random.key(0))

  return KitchenTask(
      alphabet=alphabet, prompt_columns=num + 1, answer_columns=2, sample=sample, observation_columns=num + 1,
      start=start, act=act, expert=expert, expert_return=1.0, things=num, make=make,
  )


def _recipes(basics: int, dishes: int) -> tuple[np.ndarray, np.ndarray]:
  """What each thing is made of, and all that it needs before: [N, N] bool each."""
  random, num = np.random.default_rng(_SEED), basics + dishes
  parts, needs = np.zeros((num, num), bool), np.zeros((num, num), bool)
  for thing in range(basics, num):
    first = thing - 1 if thing > basics else int(random.integers(basics))  # a chain, so that dishes are far
    second = int(random.choice([x for x in range(thing) if x != first]))
    for part in (first, second):
      parts[thing, part] = True
      needs[thing] |= needs[part]
      needs[thing, part] = True
  return parts, needs
