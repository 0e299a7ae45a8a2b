"""Stored episodes of an expert, in place of the world that they were played in: `cb` -> `:B.` -> `x` -> ...

No world is asked any more: of an episode there are the expert's actions and what was seen behind each. An
action is right where it is the stored one. `semi_online` walks along an episode while the context keeps what
the policy itself said; where that is another action, it is patched: the log goes on as if the expert's had
been said, a few times an episode. `step_by_step` asks for one action behind the expert's own history, as
offline RL and the accuracy of steps have it.
"""

from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import SUCCESS, Reply, TurnTask, compact, said
from rlx.errors import at_least
from rlx.types import Batch


def semi_online(*, task, most_turns: int, patches: int) -> TurnTask:
  """Stored episodes that are walked along with the policy's own history.

  Each action that is the expert's is worth 1 / K of an episode of K actions. So with no patches an episode is
  worth the progress until the policy first leaves the log, and `success` is never to leave it.

  Args:
    task: makes the world that was recorded, in which nothing happens by chance; in a config a section.
    most_turns: of the expert's episodes, which all end by then.
    patches: actions that are put right in an episode; the next wrong one ends it.
  Returns:
    A world whose states are told apart by the step of the log alone, whatever was patched before: in a group
    the steps of one log are compared. `Reply.info` has `patched`, wrong actions so far.
  Source: UI-S1, https://arxiv.org/abs/2509.11543 (semi-online rollout, its patch module without thoughts).
  """
  at_least(1, most_turns=most_turns)
  at_least(0, patches=patches)
  inner: TurnTask = task()

  def start(problem: Batch):
    return {'log': _recorded(inner, problem, most_turns), 'step': jnp.int32(0), 'wrong': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    log, step = state['log'], jnp.minimum(state['step'], most_turns - 1)
    right = _same(log['actions'][step], log['lengths'][step], action, length, inner.answer_columns)
    after = {'log': log, 'step': step + 1, 'wrong': state['wrong'] + ~right}
    ends = (after['wrong'] > patches) | (after['step'] >= log['turns'])
    whole = (after['step'] >= log['turns']) & (after['wrong'] == 0)
    return Reply(
        after, log['seen'][step], log['seen_lengths'][step], right / log['turns'], ends, jnp.bool_(True),
        {SUCCESS: whole.astype(jnp.float32), 'patched': after['wrong'].astype(jnp.float32)},
    )

  def expert(state):
    step = jnp.minimum(state['step'], most_turns - 1)
    return state['log']['actions'][step], state['log']['lengths'][step]

  return TurnTask(
      alphabet=inner.alphabet, prompt_columns=inner.prompt_columns, answer_columns=inner.answer_columns,
      sample=inner.sample, observation_columns=inner.observation_columns, start=start, act=act, expert=expert,
      expert_return=1.0, state_id=lambda state: state['step'],
  )


def step_by_step(*, task, most_turns: int, turn_tokens: int) -> TurnTask:
  """One action behind as much of a stored episode as there is before it; 1 where it is the expert's.

  Args:
    task: as for `semi_online`.
    most_turns: of the expert's episodes.
    turn_tokens: the most tokens of an action where they are said, so that histories read as they would.
  Returns:
    A world of single turns, whose prompts hold the history: with end tokens in it.
  """
  at_least(1, most_turns=most_turns, turn_tokens=turn_tokens)
  inner: TurnTask = task()
  columns = inner.prompt_columns + (most_turns - 1) * (turn_tokens + inner.observation_columns)

  def behind(problem: Batch, key: jax.Array) -> Batch:
    log = _recorded(inner, problem, most_turns)
    step = jax.random.randint(key, (), 0, log['turns'])
    pieces = [(problem['prompts'], problem['prompt_lengths'], True)]
    for turn in range(most_turns - 1):
      spoken = jnp.minimum(log['lengths'][turn], turn_tokens)
      pieces += [(log['actions'][turn][:turn_tokens], spoken, turn < step)]
      pieces += [(log['seen'][turn], log['seen_lengths'][turn], turn < step)]
    kept = [(jnp.arange(tokens.shape[0]) < length) & there for tokens, length, there in pieces]
    prompt, length = compact(jnp.concatenate([tokens for tokens, _, _ in pieces]), jnp.concatenate(kept))
    prompt = jnp.pad(prompt, (0, max(columns - prompt.shape[0], 0)), constant_values=text.PAD_ID)
    answer = {'action': log['actions'][step], 'length': log['lengths'][step]}
    return {**answer, 'step': step, 'prompts': prompt[:columns], 'prompt_lengths': length}

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problem_key, step_key = jax.random.split(key)
    return jax.vmap(behind)(inner.sample(problem_key, num, held_out), jax.random.split(step_key, num))

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    del key
    right = _same(state['action'], state['length'], action, length, inner.answer_columns)
    nothing, one = jnp.zeros(inner.observation_columns, jnp.int32), right.astype(jnp.float32)
    return Reply(state, nothing, jnp.int32(0), one, jnp.bool_(True), jnp.bool_(True), {SUCCESS: one})

  return TurnTask(
      alphabet=inner.alphabet, prompt_columns=columns, answer_columns=inner.answer_columns, sample=sample,
      observation_columns=inner.observation_columns,
      start=lambda problem: {name: problem[name] for name in ('action', 'length', 'step')}, act=act,
      expert=lambda state: (state['action'], state['length']), expert_return=1.0,
  )


def _recorded(inner: TurnTask, problem: Batch, most_turns: int) -> dict[str, Any]:
  """An episode of the expert: `actions` [K, A] and what was `seen` [K, O], their lengths, and `turns`."""

  def turn(carry, _):
    state, over = carry
    action, length = inner.expert(state)
    reply = inner.act(state, action, length, jax.random.key(0))
    return (reply.state, over | reply.ended), (action, length, reply.observation, reply.length, ~over)

  carry = (inner.start(problem), jnp.bool_(False))
  _, (actions, lengths, seen, seen_lengths, there) = jax.lax.scan(turn, carry, length=most_turns)
  return {
      'actions': actions, 'lengths': lengths, 'seen': seen, 'seen_lengths': seen_lengths,
      'turns': there.sum(dtype=jnp.int32),
  }


def _same(stored: jax.Array, stored_length: jax.Array, action: jax.Array, length: jax.Array, columns: int):
  """[] bool: whether two actions are the same, with an end token or cut off where a turn ends."""
  return jnp.all(said(stored, stored_length, columns) == said(action, length, columns))
