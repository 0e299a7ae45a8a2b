"""Several roles in one row: who speaks next says so with a tag, and one policy plays them all.

    `①AxB:②c` -> ①A -> A ②3 -> A ①x -> x ②1 -> ...        the form of `form.py`, planner ①, grounder ②

A world of seats becomes a world of turns. A turn begins with the tag of a role, and what the role says stands
behind it. The roles follow each other as the seats did; under another tag nothing was said, and the tag that
was due is read where the seats have nothing to answer. What the seats were told is read by the one row, so
nothing is private: it is what is left of a table when its talk is written down, and what a chain of agents
distils.

Source: Chain-of-Agents, https://arxiv.org/abs/2508.13167.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SeatTask
from rlx.envs.turns import Reply, TurnTask, compact
from rlx.types import Batch

TAGS = '①②③④⑤⑥'


class Chain(NamedTuple):
  """The state of a row of roles."""

  inner: object  # of the world of seats
  phase: jax.Array  # [] int32, turns that were understood


def chained(*, task, expert_return: float) -> TurnTask:
  """Episodes of a world of seats, in which one speaker takes all seats.

  Args:
    task: makes the world of seats, whose replies tell `success`; in a config a section with its `name`. It
      has an expert, which is shown with one key: where it leaves something to chance, always the same.
    expert_return: what its experts reach in the mean, of all seats.
  Raises:
    ValueError: there are more seats than tags.
  """
  world: SeatTask = task()
  seats, order = len(world.seats), jnp.asarray(world.order)
  if seats > len(TAGS):
    raise ValueError(f'{seats} seats: there are tags for {len(TAGS)}; take a world of fewer')
  alphabet = world.alphabet + TAGS[:seats]
  tags = text.characters(TAGS[:seats], alphabet)

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problems = world.sample(key, num, held_out)
    pieces = [
        piece for seat in range(seats) for piece in (
            text.symbol(jnp.full(num, seat), TAGS[:seats], alphabet),
            text.Piece(problems['prompts'][:, seat], problems['prompt_lengths'][:, seat]),
        )
    ]
    prompt = text.join(*pieces, columns=seats * (1 + world.prompt_columns))
    told = {'told': problems['prompts'], 'told_lengths': problems['prompt_lengths']}
    return {**problems, **told, 'prompts': prompt.tokens, 'prompt_lengths': prompt.lengths}

  def start(problem: Batch) -> Chain:
    told = {'prompts': problem['told'], 'prompt_lengths': problem['told_lengths']}
    return Chain(world.start({**problem, **told}), jnp.int32(0))

  def act(state: Chain, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    tag = tags[order[state.phase % len(world.order)]]
    in_turn = (length > 0) & (action[0] == tag)
    word = jnp.append(action[1:], text.PAD_ID)
    reply = world.act(state.inner, word, jnp.where(in_turn, length - 1, 0), key)
    there = jnp.arange(world.observation_columns)[None] < reply.lengths[:, None]
    understood = in_turn & reply.understood
    heard, told = compact(
        jnp.append(reply.observations, tag), jnp.append(there, ~understood & ~jnp.any(there))
    )
    return Reply(
        state=Chain(reply.state, state.phase + 1), observation=heard, length=told,
        reward=reply.rewards.mean(), ended=reply.ended, understood=understood, info=reply.info,
    )

  def expert(state: Chain) -> tuple[jax.Array, jax.Array]:
    word, length = world.expert(state.inner, jax.random.key(0))
    tag = tags[order[state.phase % len(world.order)]]
    return jnp.append(tag, word).astype(jnp.int32), length + 1

  return TurnTask(
      alphabet=alphabet, prompt_columns=seats * (1 + world.prompt_columns),
      answer_columns=1 + world.answer_columns, sample=sample,
      observation_columns=seats * world.observation_columns + 1, start=start, act=act, expert=expert,
      expert_return=expert_return,
  )
