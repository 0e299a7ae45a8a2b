"""What a world is that is answered in turns: a policy speaks, the world replies, inside the compiled step.

A `TurnTask` makes problems as any `Task` does, so that held-out problems, curricula and stages are those of
text. What comes after the prompt is an episode: pure functions of one of them, which the engine maps over
many (`engine/turns.py`). A `Task` is a world of a single turn (`one_turn`). `conformance.check_turn_task`
checks the contract.

An action is tokens: up to its end token or to the most tokens of a turn, whichever comes first. `said` cuts
off whatever is not part of it.
"""

from collections.abc import Callable
import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.text import EOS_ID, PAD_ID, Task
from rlx.types import Batch

SUCCESS = 'success'  # what every world tells in `Reply.info`: 1 where the episode was solved


class Reply(NamedTuple):
  """What a world answers to an action; of one episode."""

  state: Any  # after the action
  observation: jax.Array  # [O] int32 tokens, that the policy reads next; an end token among them ends nothing
  length: jax.Array  # [] int32, how many of them count; 0 where there is nothing to read
  reward: jax.Array  # [] float32, of this turn
  ended: jax.Array  # [] bool, True where the world ends the episode; nobody reads the observation then
  understood: jax.Array  # [] bool, False where the action meant nothing
  info: dict[str, jax.Array]  # numbers [] float32, `success` among them; those of the last turn are metrics


def _no_verdict(problems: Batch, completions: jax.Array) -> jax.Array:
  raise ValueError(
      "a world of turns judges no completion: take rollout.name='turns.episodes', whose rows have the "
      "rewards of the world, and reward.name='of_world'"
  )


def fingerprint(state: Any) -> jax.Array:
  """[] int32, a hash of everything in a state: equal states have equal ones, others nearly always differ."""
  mixed = jnp.uint32(2166136261)
  for leaf in jax.tree.leaves(state):
    leaf = jnp.asarray(leaf)
    whole = jax.lax.bitcast_convert_type(leaf, jnp.uint32) if leaf.dtype == jnp.float32 else leaf
    parts = whole.astype(jnp.uint32).reshape(-1)
    # Each place has an odd factor of its own; the sum is then stirred, so that leaves do not cancel out.
    factors = (2654435761 * (2 * np.arange(parts.size, dtype=np.uint64) + 1) % 2**32).astype(np.uint32) | 1
    parts = (parts ^ (parts >> 15)) * jnp.asarray(factors)
    mixed = _stirred(mixed * jnp.uint32(16777619) ^ jnp.sum(_stirred(parts), dtype=jnp.uint32))
  return jax.lax.bitcast_convert_type(mixed, jnp.int32)


def _stirred(x: jax.Array) -> jax.Array:
  """A bijection of 32 bits in which every bit decides about every other. (murmur3's finaliser)"""
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  return x ^ (x >> 16)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TurnTask(Task):
  """A family of episodes. `alphabet`, `prompt_columns` and `sample` are those of `Task`.

  Problems need no `solutions`. `begin` is the memory of drawing problems, as of any task; an episode begins
  with `start`. All functions below are of *one* episode, and compile.

  Attributes:
    answer_columns: length of the expert's longest action with its end token, in tokens.
    observation_columns: O, the longest observation, in tokens; at least 1.
    start: `problem -> state`, from a row of `sample`. The prompt is what is read first.
    act: `(state, action [A], length, key) -> Reply`, for any A. `length` tokens were said, their end token
      among them; what stands behind them never matters. The key is of this episode and turn.
    expert: `state -> (action [answer_columns], length)`, which reaches `expert_return`.
    expert_return: mean return of the expert.
    state_id: `state -> [] int32`, what states are told apart by.
    verify: asked by nobody: the world has the rewards.
  """

  observation_columns: int
  start: Callable[[Batch], Any]
  act: Callable[[Any, jax.Array, jax.Array, jax.Array], Reply]
  expert: Callable[[Any], tuple[jax.Array, jax.Array]]
  expert_return: float
  state_id: Callable[[Any], jax.Array] = fingerprint
  verify: Callable[[Batch, jax.Array], jax.Array] = _no_verdict

  def random_return(self, *, max_turns: int, episodes: int = 512) -> float:
    """The mean return of episodes of random tokens, measured: what a policy that knows nothing gets.

    Args:
      max_turns: of an episode.
      episodes: of training problems, always the same.
    """
    problem_key, key = jax.random.split(jax.random.key(0))

    def play(problem: Batch, key: jax.Array) -> jax.Array:
      def turn(carry, index):
        state, over, total = carry
        keys = jax.random.split(jax.random.fold_in(key, index), 3)
        columns = self.answer_columns
        action = jax.random.randint(keys[0], (columns,), EOS_ID, self.vocab_size)
        length = jax.random.randint(keys[1], (), 1, columns + 1)
        reply = self.act(state, action, length, keys[2])
        state = jax.tree.map(lambda old, new: jnp.where(over, old, new), state, reply.state)
        return (state, over | reply.ended, total + jnp.where(over, 0, reply.reward)), None

      carry = (self.start(problem), jnp.bool_(False), jnp.float32(0))
      return jax.lax.scan(turn, carry, jnp.arange(max_turns))[0][2]

    problems = self.sample(problem_key, episodes, False)
    return float(jax.jit(jax.vmap(play))(problems, jax.random.split(key, episodes)).mean())

  def demonstrate(self, world, key, num):
    """Raises `ValueError`: what is shown here are episodes, not solutions."""
    raise ValueError("a world of turns has no solutions: take the rollout 'turns.expert_turns'")


def one_turn(task: Task) -> TurnTask:
  """A text task as a world: one turn, whose action is the completion, and whose reward is the verdict.

  An answer without its end token does not end the episode: it is cut off by the limit of turns, so that
  `truncated` means what it means for completions.
  """
  if isinstance(task, TurnTask):
    return task

  def act(state: Batch, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    completion = jnp.where(jnp.arange(action.shape[0]) < length, action, PAD_ID)
    reward = task.verify(jax.tree.map(lambda x: x[None], state), completion[None])[0]
    return Reply(
        state=state, observation=jnp.zeros(1, jnp.int32), length=jnp.int32(0), reward=reward,
        ended=jnp.any(completion == EOS_ID), understood=jnp.bool_(True),
        info={SUCCESS: (reward == 1).astype(jnp.float32)},
    )

  def expert(state: Batch):
    solution = state['solutions']
    return solution, jnp.argmax(solution == EOS_ID).astype(jnp.int32) + 1

  return TurnTask(
      alphabet=task.alphabet, prompt_columns=task.prompt_columns, answer_columns=task.answer_columns,
      sample=task.sample, observation_columns=1, start=lambda problem: problem, act=act, expert=expert,
      expert_return=1.0,
  )


def said(action: jax.Array, length: jax.Array, columns: int) -> jax.Array:
  """[columns] int32: the tokens of an action without its end token, and padding behind them.

  Args:
    action: [A] tokens.
    length: [] how many of them were said.
    columns: how many the world looks at; where the action is longer, the last one is padding's opposite, -1,
      so that it is no shorter action.
  """
  places = jnp.arange(action.shape[0])
  inside = (places < length) & (jnp.cumsum(action == EOS_ID) == 0)
  whole = jnp.where(inside, action, PAD_ID)
  cut = jnp.pad(whole, (0, max(columns - action.shape[0], 0)))[:columns]
  return jnp.where((jnp.arange(columns) == columns - 1) & (inside.sum() > columns), -1, cut)


def compact(tokens: jax.Array, keep: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Tokens [O] of which some are left out: the others in front, padding behind, and how many there are."""
  order = jnp.argsort(~keep, stable=True)
  return jnp.where(keep, tokens, PAD_ID)[order].astype(jnp.int32), keep.sum(dtype=jnp.int32)


def with_end(tokens: jax.Array, length: jax.Array, columns: int) -> tuple[jax.Array, jax.Array]:
  """An action of an expert, [columns] with an end token behind `length` tokens, and its length with it."""
  places, room = jnp.arange(columns), jnp.pad(tokens, (0, max(columns - tokens.shape[0], 0)))[:columns]
  return (
      jnp.where(places < length, room, jnp.where(places == length, EOS_ID, PAD_ID)).astype(jnp.int32),
      jnp.asarray(length + 1, jnp.int32),
  )


def index_in(tokens: jax.Array, token: jax.Array) -> tuple[jax.Array, jax.Array]:
  """The place of a token among others [N], and whether it is one of them; 0 where it is none."""
  same = tokens == token
  return jnp.argmax(same).astype(jnp.int32), jnp.any(same)
