"""Sampling episodes of several seats whose world is Python on the host: a sitting for each seat.

It is `seats.py` in the pieces of `host_turns.py`. In each episode one seat speaks and the others wait, those
that were not asked yet from the start. What it said is replied to: with what seats read before they speak
again, with rewards, and with who speaks next, which may be the same seat, whose tools have answered. One
thread drives the sittings in turn; while one episode waits for its reply, others go on at every seat.

What a seat says does not depend on when replies come, or on what others say that it is not told: its row has
keys and values of its own, and noise of its own, that of `seats.py`. There is no order of seats.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import time
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from rlx.engine.host_turns import Answer, Conversation, Said, Sitting, Tally, keys_of, tally_of
from rlx.engine.seats import keys_of_seat
from rlx.models.transformer import Params
from rlx.types import Batch, Key

_NO_LIMIT = 2**31 - 1  # the turns are counted here, those of all seats together


class Reply(NamedTuple):
  """What is said to an action of the seat that speaks."""

  sequence: int
  told: Mapping[int, Sequence[int]] = {}  # seat -> tokens that it reads before it speaks again
  rewards: Mapping[int, float] = {}  # seat -> reward of this action, whoever said it
  next: int | None = None  # the seat that speaks now; None where the episode is over
  ended: bool = True  # the world ended it, where it is over; a limit did otherwise
  understood: bool = True
  info: dict[str, float] = {}  # of the episode so far; the names are those of `Company.info`
  anchor: int = 0  # a hash of the state before the action
  goes_on: bool = False  # the turn is not over: the seat goes on speaking


class Company(Protocol):
  """Who replies. Its functions are called by one thread, the one that talks to JAX."""

  info: Sequence[str]  # names of what is told of each episode

  def say(self, seat: int, said: Said) -> None:
    """Takes an action of a seat, and returns at once."""

  def replies(self, *, wait: bool) -> list[Reply]:
    """The replies that are there; with `wait`, at least one of those that were asked for."""

  def over(self, sequence: int) -> None:
    """Takes note that an episode is over, by a reply or by a limit."""


def sample(
    conversations: Sequence[Conversation], params: Sequence[Params], prompts: Sequence[jax.Array],
    prompt_lengths: Sequence[jax.Array], key: Key, company: Company, *, max_turns: int,
) -> tuple[list[Batch], Tally]:
  """Episodes of problems, as rows of each seat; the first seat speaks first.

  Args:
    conversations: of each seat, with as many episodes a problem, slots and columns as the others; two seats
      of one model may share theirs.
    params: of the model of each seat.
    prompts: of each seat, [P, Tp].
    prompt_lengths: of each seat, [P] int32.
    key: the noise of the seats.
    company: replies.
    max_turns: the most actions of an episode, of all seats together.
  Returns:
    For each seat, a batch of the columns of `engine.seats.sample`; and what the clock said.
  """
  num = prompts[0].shape[0] * conversations[0].group_size
  keys = keys_of(key, num)
  sittings = [
      conversation.open(
          own, prompt, lengths, keys_of_seat(keys, seat), max_turns=_NO_LIMIT, info=company.info,
          silent=seat > 0,
      )
      for seat, (conversation, own, prompt, lengths) in enumerate(
          zip(conversations, params, prompts, prompt_lengths, strict=True)
      )
  ]
  ledger = _Ledger(num, sittings, room=conversations[0].decoding.max_tokens, max_turns=max_turns)
  waited = 0.0
  while True:
    for seat, sitting in enumerate(sittings):
      if not sitting.is_idle:
        for said in sitting.go():
          company.say(seat, said)
    if all(sitting.is_over for sitting in sittings):
      break
    began, everybody = time.monotonic(), all(sitting.is_idle for sitting in sittings)
    replies = company.replies(wait=everybody)
    waited += everybody * (time.monotonic() - began)
    # All hear of an end before anybody goes on: free slots take the same episode at every seat.
    answers = [ledger.entered(reply) for reply in replies]
    over = [sitting.hear([x[i] for x in answers if i in x]) for i, sitting in enumerate(sittings)]
    for sequence in over[0]:
      company.over(sequence)
  rows = [with_seat(sitting.rows(), seat, ledger.payoffs(seat)) for seat, sitting in enumerate(sittings)]
  return rows, tally_of(sittings, waited)


def shapes(
    conversations: Sequence[Conversation], params: Sequence[Params], prompts: jax.Array,
    prompt_lengths: jax.Array, key: Key, info: Sequence[str],
) -> list[Batch]:
  """Rows of the shapes of `sample`, with one prompt [P, Tp] for all seats; only ever traced."""
  rows = []
  for seat, (conversation, own) in enumerate(zip(conversations, params, strict=True)):
    batch = conversation.shapes(own, prompts, prompt_lengths, key, info)
    rows.append(with_seat(batch, seat, jnp.zeros(batch['groups'].shape)))
  return rows


def with_seat(rows: Batch, seat: int, payoffs: jax.Array) -> Batch:
  """Rows with whose view they are, and what the seat got [B]."""
  return {**rows, 'seats': jnp.full(rows['groups'].shape, seat, jnp.int32), 'payoffs': payoffs}


@dataclasses.dataclass
class _Place:
  """A seat in an episode."""

  is_silent: bool  # it was not asked yet
  tokens: list[int] = dataclasses.field(default_factory=list)  # that it was told and has not read
  owed: float = 0.0  # since it was answered last, and before it spoke
  payoff: float = 0.0
  reply: Reply | None = None  # to what it said last

  def answer(self, sequence: int) -> Answer:
    """What it is answered when it speaks again, or when all is over."""
    tokens, self.tokens = self.tokens, []
    if self.is_silent:  # what it is owed comes with its first action
      self.is_silent = False
      return Answer(sequence, tokens)
    reward, self.owed = self.owed, 0.0
    return Answer(sequence, tokens, reward, understood=self.reply.understood, anchor=self.reply.anchor)


class _Ledger:
  """Who speaks in N episodes, and what the seats have not heard yet."""

  def __init__(self, num: int, sittings: Sequence[Sitting], *, room: int, max_turns: int):
    self._sittings, self._room, self._max_turns = sittings, room, max_turns
    self._places = [[_Place(is_silent=seat > 0) for seat in range(len(sittings))] for _ in range(num)]
    self._speaker, self._turns = [0] * num, [0] * num

  def entered(self, reply: Reply) -> dict[int, Answer]:
    """Enters a reply; what seats are answered now: the one that speaks, or all where the episode is over."""
    sequence = reply.sequence
    places, speaker = self._places[sequence], self._speaker[sequence]
    if reply.goes_on:
      return {speaker: Answer(sequence, goes_on=True)}
    self._turns[sequence] += 1
    places[speaker].reply = reply
    for seat, tokens in reply.told.items():
      places[seat].tokens += tokens
    for seat, reward in reply.rewards.items():
      places[seat].owed += reward
      places[seat].payoff += reward
    behind = [s.end_of(sequence) + len(place.tokens) for s, place in zip(self._sittings, places, strict=True)]
    is_full = max(behind) >= self._room  # one more token, of an action, has to fit
    if reply.next is None or is_full or self._turns[sequence] >= self._max_turns:
      ended = reply.next is None and reply.ended
      last = {'tokens': (), 'ended': ended, 'stops': True, 'info': reply.info}
      return {seat: place.answer(sequence)._replace(**last) for seat, place in enumerate(places)}
    self._speaker[sequence] = reply.next
    return {reply.next: places[reply.next].answer(sequence)}

  def payoffs(self, seat: int) -> np.ndarray:
    """[N] float32, what a seat got in each episode."""
    return np.array([places[seat].payoff for places in self._places], np.float32)
