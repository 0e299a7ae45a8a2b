"""What an episode of several speakers is: seats that speak in phases, and a world between them.

A `SeatTask` is what `envs/turns.py` calls a world, with a table around it. In each phase one seat says an
action; the world answers with what every seat reads next. A seat knows its own prompt, what it said, and what
it was told, and nothing else. A `TurnTask` is a world with one seat (`one_seat`).

An action is tokens, as there: `turns.said` cuts off what is not part of it. `check_seat_task` checks the
contract.
"""

from collections.abc import Callable
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.text import Task
from rlx.envs.turns import SUCCESS, TurnTask, fingerprint
from rlx.types import Batch

__all__ = ['SUCCESS', 'Exam', 'ExaminedTask', 'SeatReply', 'SeatTask', 'VariedTask', 'one_seat', 'told']


class SeatReply(NamedTuple):
  """What a world answers to an action; of one episode with N seats."""

  state: Any  # after the action
  observations: jax.Array  # [N, O] int32 tokens, that each seat reads before it speaks again
  lengths: jax.Array  # [N] int32, how many of them count
  rewards: jax.Array  # [N] float32, of this action, whoever said it
  ended: jax.Array  # [] bool, True where the world ends the episode; nobody reads the observations then
  understood: jax.Array  # [] bool, False where the action meant nothing
  info: dict[str, jax.Array]  # numbers [] float32; those of the last action are metrics


def _no_verdict(problems: Batch, completions: jax.Array) -> jax.Array:
  raise ValueError(
      "a world of seats judges no completion: take rollout.name='seats.episodes', whose rows have the "
      "rewards of the world, and reward.name='of_world'"
  )


def _no_expert(state: Any, key: jax.Array) -> tuple[jax.Array, jax.Array]:
  raise ValueError('nobody shows how to play in this world: learn from its payoffs')


@dataclasses.dataclass(frozen=True, kw_only=True)
class SeatTask(Task):
  """A family of episodes with several seats.

  `sample` gives `prompts` [P, N, prompt_columns] and `prompt_lengths` [P, N], one for each seat. The
  functions below are of *one* episode, and compile.

  Attributes:
    seats: N names. Rollouts ask for speakers by them.
    order: who speaks in each phase of a round, numbers of seats; rounds follow until an episode is over.
    observation_columns: O, the longest observation, in tokens; at least 1.
    start: `problem -> state`, from a row of `sample`.
    act: `(state, action [A], length, key) -> SeatReply`, for any A; the seat that `order` says has said it,
      and `length` tokens were said.
    state_id: `state -> [] int32`, what states are told apart by.
    expert: `(state, key) -> (action [answer_columns], length)`, of the seat that is to speak; it may be a
      matter of chance, and may know what the seat does not. Raises where a world has none.
    answer_columns: of the longest action that means something, its end token included.
    verify: asked by nobody: the world has the rewards.
  """

  seats: tuple[str, ...]
  order: tuple[int, ...]
  observation_columns: int
  start: Callable[[Batch], Any]
  act: Callable[[Any, jax.Array, jax.Array, jax.Array], SeatReply]
  state_id: Callable[[Any], jax.Array] = fingerprint
  expert: Callable[[Any, jax.Array], tuple[jax.Array, jax.Array]] = _no_expert
  verify: Callable[[Batch, jax.Array], jax.Array] = _no_verdict

  def __post_init__(self):
    if len(set(self.seats)) < len(self.seats) or not self.seats:
      raise ValueError(f'seats={self.seats!r}: at least one, each with a name of its own')
    if silent := [name for seat, name in enumerate(self.seats) if seat not in self.order]:
      raise ValueError(f'order={self.order!r}: the seats {silent} never speak; let them, or leave them out')
    if unknown := [seat for seat in self.order if not 0 <= seat < len(self.seats)]:
      raise ValueError(f'order={self.order!r}: {unknown} are no seats; there are {len(self.seats)}')

  def demonstrate(self, world, key, num):
    """Raises `ValueError`: what is shown here are episodes, not solutions."""
    raise ValueError("a world of seats has no solutions to be imitated: take the rollout 'seats.shown'")


class Exam(NamedTuple):
  """All that a seat may be asked, as rows, with the one token that is right; on the host."""

  seat: str
  tokens: np.ndarray  # [Q, C] int32, what it has read
  lengths: np.ndarray  # [Q] int32
  right: np.ndarray  # [Q] int32
  kinds: np.ndarray  # [Q] int32, into `names`
  names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExaminedTask(SeatTask):
  """A world in which one seat can be asked everything.

  Attributes:
    exam: makes the questions.
  """

  exam: Callable[[], Exam]


@dataclasses.dataclass(frozen=True, kw_only=True)
class VariedTask(SeatTask):
  """A world that makes problems like others.

  Attributes:
    vary: `(problems, key) -> problems`, as many training problems, each like the one in its place.
  """

  vary: Callable[[Batch, jax.Array], Batch]


def one_seat(task: TurnTask) -> SeatTask:
  """A world of turns as one with a single seat, `policy`."""

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problems = task.sample(key, num, held_out)
    return {
        **problems, 'prompts': problems['prompts'][:, None],
        'prompt_lengths': problems['prompt_lengths'][:, None],
    }

  def start(problem: Batch):
    inner = {'prompts': problem['prompts'][0], 'prompt_lengths': problem['prompt_lengths'][0]}
    return task.start({**problem, **inner})

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    reply = task.act(state, action, length, key)
    return SeatReply(
        state=reply.state, observations=reply.observation[None], lengths=reply.length[None],
        rewards=reply.reward[None], ended=reply.ended, understood=reply.understood, info=reply.info,
    )

  return SeatTask(
      alphabet=task.alphabet, prompt_columns=task.prompt_columns, answer_columns=task.answer_columns,
      sample=sample, seats=('policy',), order=(0,), observation_columns=task.observation_columns, start=start,
      act=act, state_id=task.state_id, expert=lambda state, key: task.expert(state),
  )


def told(tokens: jax.Array, hears: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The same words [O] for all seats that hear them [N], as observations [N, O] and lengths [N]."""
  heard = jnp.where(hears, tokens.shape[0], 0).astype(jnp.int32)
  return jnp.broadcast_to(tokens.astype(jnp.int32)[None], (hears.shape[0], tokens.shape[0])), heard
