"""The contract of a world of turns as one function that a test calls: `check_turn_task(my_world)`.

It plays episodes: of the expert, of random tokens, and of both by turns, which meets most states; the replies
of the last kind are looked at one by one. As for `conformance.check_task`, give it a small world.
"""

from collections.abc import Callable
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs import conformance
from rlx.envs.conformance import _require
from rlx.envs.turns import SUCCESS, TurnTask


def check_turn_task(task: TurnTask, *, num: int = 256, max_turns: int = 24) -> None:
  """Raises `ValueError` where a world breaks the contract of `rlx.envs.turns.TurnTask`.

  Args:
    task: any world; small is better.
    num: problems a draw, and episodes of each kind.
    max_turns: turns after which an episode is left; enough for the expert, who has to reach `expert_return`
      up to four standard errors, which are 0 where all of its episodes are worth the same.
  Raises:
    ValueError: a property that does not hold.
  """
  conformance._check_alphabet(task)
  sample = jax.jit(task.sample, static_argnums=(1, 2))
  keys = jax.random.split(jax.random.key(0), 4)
  draw = lambda held_out: [jax.tree.map(np.asarray, sample(key, num, held_out)) for key in keys]
  training, held_out = draw(False), draw(True)
  for problems in (*training, *held_out):
    _check_prompts(task, problems, num)
  # What is hidden tells problems apart too: a prompt alone may be of several.
  whole = lambda draws: [_lines(problems) for problems in draws]
  conformance.check_split(whole(training), whole(held_out))
  play = jax.jit(jax.vmap(functools.partial(_play, task, max_turns=max_turns), in_axes=(0, 0, None)))
  many = jax.random.split(jax.random.key(1), num)
  for problems in (training[0], held_out[0]):
    _check_expert(task, jax.device_get(play(problems, many, 1.0)))
  reached = float(play(training[0], many, 0.0)['total'].mean())
  _require(
      reached < task.expert_return,
      f'random tokens reach {reached:.3f}, no less than expert_return={task.expert_return}',
  )
  _check_replies(task, jax.device_get(play(training[0], many, 0.5)))


def _lines(problems) -> list[str]:
  """A problem a line: everything in it."""
  columns = [np.asarray(x).reshape(len(x), -1) for _, x in sorted(problems.items())]
  return [' '.join(str(x.tolist()) for x in row) for row in zip(*columns, strict=True)]


def _check_prompts(task: TurnTask, problems, num: int) -> None:
  shapes = {'prompts': (num, task.prompt_columns), 'prompt_lengths': (num,)}
  for name, shape in shapes.items():
    _require(name in problems, f'problems lack the column {name!r}; they have {sorted(problems)}')
    array = problems[name]
    _require(
        array.shape == shape and array.dtype == np.int32,
        f'problems[{name!r}] is {array.dtype}{array.shape}; it needs int32{shape}',
    )
  for name, array in problems.items():
    _require(array.shape[:1] == (num,), f'problems[{name!r}] is {array.shape}; its first axis is {num}')
  taken = (problems.keys() & conformance.BATCH_KEYS.keys()) - shapes.keys() - {'tasks', 'solutions'}
  _require(not taken, f'the columns {sorted(taken)} mean something else in a batch; rename them')
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  inside = np.arange(task.prompt_columns)[None] < lengths[:, None]
  fine = (lengths >= 1) & (inside == conformance._is_character(task, prompts)).all(axis=1)
  _require(
      fine.all() and not prompts[~inside].any(),
      'a prompt is `prompt_lengths` characters from column 0 and then padding; one is not',
  )


def _play(task: TurnTask, problem, key: jax.Array, expert_share: float, *, max_turns: int) -> dict[str, Any]:
  """An episode, its turns one by one [max_turns, ...], and what was found of each reply."""
  columns = task.answer_columns + 2

  def turn(carry, index):
    state, ended, total = carry
    keys = jax.random.split(jax.random.fold_in(key, index), 5)
    coin_key, token_key, length_key, world_key, noise_key = keys
    shown, shown_length = task.expert(state)
    shown = jnp.pad(shown, (0, columns - shown.shape[0]))
    random = jax.random.randint(token_key, (columns,), 1, task.vocab_size)
    random_length = jax.random.randint(length_key, (), 1, columns + 1)
    by_expert = jax.random.bernoulli(coin_key, expert_share)
    action = jnp.where(by_expert, shown, random)
    length = jnp.where(by_expert, shown_length, random_length)
    reply = task.act(state, action, length, world_key)
    noise = jax.random.randint(noise_key, (columns,), 0, task.vocab_size)
    noisy = jnp.where(jnp.arange(columns) < length, action, noise)
    others = [
        task.act(state, noisy, length, world_key),
        task.act(state, jnp.pad(noisy, (0, 3), constant_values=2), length, world_key),
    ]
    told = {
        'counts': ~ended, 'by_expert': by_expert, 'ended': reply.ended, 'understood': reply.understood,
        'observation': reply.observation, 'length': reply.length, 'reward': reply.reward,
        'same': jnp.stack([_same(reply, other) for other in others]).all(), 'id': task.state_id(state),
        'again': task.state_id(jax.tree.map(jnp.array, state)), 'state': state,
        SUCCESS: reply.info.get(SUCCESS, jnp.nan),
    }
    over = ended | reply.ended
    state = jax.tree.map(lambda old, new: jnp.where(ended, old, new), state, reply.state)
    return (state, over, total + jnp.where(ended, 0, reply.reward)), told

  state = task.start(problem)
  carry = (state, jnp.bool_(False), jnp.float32(0))
  (_, ended, total), told = jax.lax.scan(turn, carry, jnp.arange(max_turns))
  return {**told, 'over': ended, 'total': total}


def _same(reply, other) -> jax.Array:
  """Whether two replies are equal, of observations what counts; numbers up to rounding."""
  inside = jnp.arange(reply.observation.shape[0]) < reply.length
  cut = lambda x: x._replace(observation=jnp.where(inside, x.observation, 0))
  pairs = jax.tree.map(lambda x, y: jnp.all(jnp.abs(1.0 * x - y) < 1e-5), cut(reply), cut(other))
  return jnp.stack(jax.tree.leaves(pairs)).all()


def _check_expert(task: TurnTask, played) -> None:
  counts = played['counts']
  _require(played['over'].all(), f'{np.mean(~played["over"]):.0%} of the episodes of the expert do not end')
  _require(played['understood'][counts].all(), 'an action of the expert is not understood')
  reached = float(played['total'].mean())
  error = float(played['total'].std()) / len(played['total']) ** 0.5
  _require(
      abs(reached - task.expert_return) <= 1e-4 + 4 * error,
      f'expert_return={task.expert_return}, but the expert reaches {reached:.4f} on average',
  )
  last = counts & played['ended']
  solved = (played[SUCCESS][last] == 1).all()
  _require(solved, f'an episode of the expert does not end with info[{SUCCESS!r}]=1')


def _check_replies(task: TurnTask, played) -> None:
  counts = played['counts']
  of = lambda name: played[name][counts]
  _require(of('same').all(), 'what stands behind `length`, or how long the array is, changes a reply')
  _require(
      played['observation'].shape[-1] == task.observation_columns and played['observation'].dtype == np.int32,
      f'observations are {played["observation"].dtype}[.., {played["observation"].shape[-1]}]; '
      f'observation_columns={task.observation_columns} of int32 are announced',
  )
  observation, length = of('observation'), of('length')
  inside = np.arange(task.observation_columns)[None] < length[:, None]
  known = (observation >= 1) & (observation < task.vocab_size)
  _require(
      (length <= task.observation_columns).all() and known[inside].all(),
      'an observation has tokens that are none of the task, or is longer than observation_columns',
  )
  lost = ~of('understood')
  _require(not of('ended')[lost].any(), 'an action that is not understood ends an episode')
  _require((length[lost] > 0).all(), 'an action that is not understood gets no answer to read')
  _require(not np.isnan(of(SUCCESS)).any(), f'info lacks {SUCCESS!r}, 1 where the episode was solved')
  _check_ids(played, of)


def _check_ids(played, of: Callable) -> None:
  """States that differ have ids that differ, and equal ones have the same."""
  leaves = [np.asarray(x)[played['counts']] for x in jax.tree.leaves(played['state'])]
  rows = [leaf.reshape(len(leaf), -1) for leaf in leaves if leaf.size]
  states = [b''.join(part.tobytes() for part in parts) for parts in zip(*rows, strict=True)]
  ids = of('id')
  _require((ids == of('again')).all(), 'the same state has two ids')
  by_state = dict(zip(states, ids.tolist(), strict=True))
  _require(all(by_state[s] == i for s, i in zip(states, ids.tolist(), strict=True)), 'a state has two ids')
  _require(len(set(by_state.values())) == len(by_state), 'two states that differ have the same id')
