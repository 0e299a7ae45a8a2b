"""The contract of a text task, and that of a world of turns, as one function each that a test calls.

`check_task(my_task)`, or `check_turn_task(my_world)`, passes, or says what is wrong and shows a problem. It
looks at samples only, so it needs to know nothing of the task; but give it a *small* instance: a leak between
training and held-out problems shows only where the draws meet a good share of all problems.
"""

import collections
from collections.abc import Callable, Sequence
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.text import EOS_ID, PAD_ID, Task
from rlx.envs.turns import SUCCESS, TurnTask
from rlx.types import BATCH_KEYS

_FIRST_CHARACTER = 2  # tokens below are padding and end


def check_task(task: Task, *, num: int = 2000) -> None:
  """Raises `ValueError` where a task breaks the contract of `rlx.envs.text.Task`.

  Args:
    task: any text task; small is better, see above.
    num: problems a draw; there are four draws of each part.
  Raises:
    ValueError: a property that does not hold, with the first problem for which it does not.
  """
  _check_alphabet(task)
  sample = jax.jit(task.sample, static_argnums=(1, 2))
  keys = jax.random.split(jax.random.key(0), 4)
  training, held_out = (_checked_draws(task, sample, keys, num, part) for part in (False, True))
  texts = lambda draws: [[task.decode(row) for row in problems['prompts']] for problems in draws]
  check_split(texts(training), texts(held_out))
  _check_rows_are_independent(task, training[0])
  _check_transformations(task, training, keys, num)


def _checked_draws(task, sample, keys, num, held_out):
  """One batch of problems a key, as NumPy, each of which keeps the contract."""
  draws = [jax.tree.map(np.asarray, sample(key, num, held_out)) for key in keys]
  for problems in draws:
    _check_layout(task, problems, num)
    _check_text(task, problems)
  same = [np.array_equal(draws[0]['prompts'], problems['prompts']) for problems in draws[1:]]
  _require(not any(same), 'different keys draw the same problems')
  _check_right_answers(task, draws[0])
  _check_wrong_answers(task, draws[0])
  return draws


def _require(condition, message):
  if not condition:
    raise ValueError(message)


def _require_rows(fine, message, task, problems, completions=None):
  """Every row is fine, or the message with the first problem that is not."""
  bad = np.flatnonzero(~fine)
  if bad.size:
    answers = problems['solutions'] if completions is None else completions
    prompt, answer = (_show(task, rows[bad[0]]) for rows in (problems['prompts'], answers))
    raise ValueError(
        f'{message}: {bad.size} of {len(fine)} problems, the first has the prompt {prompt!r} and the answer '
        f'{answer!r} (`$` ends, `_` pads, `?` is no token of the task)'
    )


def _show(task, row):
  """Any tokens as text, with the special ones in sight."""
  return ''.join(('_$' + task.alphabet)[token] if 0 <= token < task.vocab_size else '?' for token in row)


def _check_alphabet(task):
  _require(len(task.alphabet) >= 2, f'the alphabet {task.alphabet!r} needs two characters or more')
  repeats = len(set(task.alphabet)) < len(task.alphabet)
  _require(not repeats, f'the alphabet {task.alphabet!r} repeats a character')


def _check_columns(task, problems, num: int, more: dict, *, allowed: set[str]) -> None:
  """Prompts and the columns `more` are int32 of their shapes, and no name means something else in a batch.

  A mixture says of which task a problem is, and means what a batch means by it: that is `allowed`.
  """
  shapes = {'prompts': (num, task.prompt_columns), 'prompt_lengths': (num,), **more}
  for name, shape in shapes.items():
    _require(name in problems, f'problems lack the column {name!r}; they have {sorted(problems)}')
    array = problems[name]
    _require(
        array.shape == shape and array.dtype == np.int32,
        f'problems[{name!r}] is {array.dtype}{array.shape}; it needs int32{shape}',
    )
  for name, array in problems.items():
    _require(array.shape[:1] == (num,), f'problems[{name!r}] is {array.shape}; its first axis is {num}')
  taken = (problems.keys() & BATCH_KEYS.keys()) - shapes.keys() - allowed
  _require(not taken, f'the columns {sorted(taken)} mean something else in a batch; rename them')


def _check_layout(task, problems, num):
  """Shapes, dtypes, and tokens that start at column 0 with nothing but padding behind them."""
  _check_columns(task, problems, num, {'solutions': (num, task.answer_columns)}, allowed={'tasks'})
  prompts, lengths, solutions = (problems[name] for name in ('prompts', 'prompt_lengths', 'solutions'))
  inside = np.arange(task.prompt_columns)[None] < lengths[:, None]
  _require_rows(
      (lengths >= 1) & (lengths <= task.prompt_columns) & (inside == _is_character(task, prompts)).all(1)
      & (inside | (prompts == PAD_ID)).all(1),
      'a prompt is `prompt_lengths` characters from column 0 and then padding; it is not so', task, problems,
  )
  ends = np.argmax(solutions == EOS_ID, axis=1)[:, None]
  columns = np.arange(task.answer_columns)[None]
  laid_out = np.where(columns < ends, _is_character(task, solutions), solutions == PAD_ID) | (columns == ends)
  _require_rows(
      (ends[:, 0] >= 1) & laid_out.all(1),
      'a solution is one character or more, one end token, and then padding; it is not so', task, problems,
  )


def _is_character(task, tokens):
  return (tokens >= _FIRST_CHARACTER) & (tokens < task.vocab_size)


def _check_text(task, problems):
  """decode and encode are inverses on what the task writes."""
  for row, length in zip(problems['prompts'], problems['prompt_lengths'], strict=True):
    again = task.encode(task.decode(row))
    _require(
        np.array_equal(again, row[:length]),
        f'encode(decode(prompt)) is {again.tolist()} for the prompt {row[:length].tolist()}',
    )


def _verify(task, problems, completions):
  """The rewards [N] as NumPy, after a look at their form."""
  rewards = jax.jit(task.verify)(problems, completions)
  num = completions.shape[0]
  _require(
      rewards.shape == (num,) and rewards.dtype == np.float32,
      f'verify returns {rewards.dtype}{rewards.shape}; it needs float32({num},)',
  )
  rewards = np.asarray(rewards)
  _require(np.isin(rewards, (0, 1)).all(), f'verify returns {np.unique(rewards)[:5]}; it needs 0 or 1')
  return rewards == 1


def _check_right_answers(task, problems):
  """Solutions verify, whatever the policy wrote behind the end token."""
  solutions = problems['solutions']
  _require_rows(_verify(task, problems, solutions), 'a solution does not verify', task, problems)
  longer = np.pad(solutions, ((0, 0), (0, 5)))
  junk = np.random.default_rng(0).integers(0, task.vocab_size, longer.shape, np.int32)
  behind = np.arange(longer.shape[1])[None] > np.argmax(longer == EOS_ID, axis=1)[:, None]
  for tail in (np.full_like(junk, EOS_ID), junk):
    completions = np.where(behind, tail, longer)
    _require_rows(
        _verify(task, problems, completions),
        'a solution with something behind its end token does not verify', task, problems, completions,
    )


def _check_wrong_answers(task, problems):
  """What no task may accept; and altered solutions, which only a lenient one accepts in part."""
  solutions = problems['solutions']
  padding = np.full_like(solutions, PAD_ID)
  first = np.arange(solutions.shape[1])[None] == 0
  wrong = {
      'a solution without its end token': np.where(solutions == EOS_ID, padding, solutions),
      'the first column of a solution alone': solutions[:, :1],
      'an empty completion': np.where(first, np.full_like(solutions, EOS_ID), padding),
      'a completion of padding': padding,
  }
  for what, completions in wrong.items():
    _require_rows(~_verify(task, problems, completions), f'{what} verifies', task, problems, completions)
  accepted = _verify(task, problems, _altered(task, solutions)).mean()
  _require(
      accepted <= 0.5,
      f'{accepted:.0%} of the solutions still verify with one character changed; at most half may',
  )


def _altered(task: Task, solutions: np.ndarray) -> np.ndarray:
  """Solutions with one random character replaced by a random other one."""
  random = np.random.default_rng(1)
  lengths = np.argmax(solutions == EOS_ID, axis=1)
  position = random.integers(lengths)[:, None]
  shift = random.integers(1, len(task.alphabet), lengths.shape)[:, None]
  changed = (solutions - _FIRST_CHARACTER + shift) % len(task.alphabet) + _FIRST_CHARACTER
  return np.where(np.arange(solutions.shape[1])[None] == position, changed, solutions).astype(np.int32)


def _check_rows_are_independent(task, problems):
  """Each row is judged by itself: reversed rows get reversed rewards."""
  completions = problems['solutions'].copy()
  completions[1::2] = PAD_ID
  rewards = _verify(task, problems, completions)
  reversed_rewards = _verify(task, *jax.tree.map(lambda a: a[::-1], (problems, completions)))
  _require_rows(
      rewards == reversed_rewards[::-1], 'the reward of a row depends on the other rows',
      task, problems, completions,
  )


def check_split(training: Sequence[Sequence], held_out: Sequence[Sequence]) -> None:
  """No problem is in both parts, whatever the keys; held-out problems are one set, whatever the key.

  Args:
    training: of each draw, what tells its problems apart.
    held_out: likewise.
  Raises:
    ValueError: it is not so.
  """
  both = set().union(*training) & set().union(*held_out)
  _require(
      not both, f'{len(both)} problems are drawn for training and held out, one is {min(both, default="")!r}'
  )
  first, *others = held_out
  counts = collections.Counter(first)
  unseen = max(np.mean([prompt not in counts for prompt in other]) for other in others)
  # Good and Turing: a draw is new about as often as a draw so far was the only one of its kind.
  expected = np.mean([counts[prompt] == 1 for prompt in first])
  _require(
      unseen <= expected + 4 / len(first) ** 0.5,
      f'{unseen:.0%} of the held-out problems of one key are new to another key; {expected:.0%} were '
      'if both keys drew from the same set',
  )


def _check_transformations(task, training, keys, num):
  """The same keys give the same problems in another trace, which is one under `vmap` as well."""
  stacked = jax.jit(jax.vmap(lambda key: task.sample(key, num, False)))(keys)
  expected = jax.tree.map(lambda *draws: np.stack(draws), *training)
  same = stacked.keys() == expected.keys() and all(np.array_equal(stacked[k], expected[k]) for k in stacked)
  _require(same, 'the same keys give other problems when traced again, under vmap')
  rewards = jax.jit(jax.vmap(task.verify))(stacked, stacked['solutions'])
  _require(np.asarray(rewards == 1).all(), 'solutions that verify do not under vmap')


# --- worlds of turns ----------------------------------------------------------------------------------------


def check_turn_task(task: TurnTask, *, num: int = 256, max_turns: int = 24) -> None:
  """Raises `ValueError` where a world breaks the contract of `rlx.envs.turns.TurnTask`.

  Args:
    task: any world; small is better.
    num: problems a draw, and episodes of each kind.
    max_turns: turns after which an episode is left; enough for the expert, who has to reach `expert_return`
      up to four standard errors, which are 0 where all of its episodes are worth the same.
  Raises:
    ValueError: a property that does not hold.

  It plays episodes: of the expert, of random tokens, and of both by turns, which meets most states; the
  replies of the last kind are looked at one by one.
  """
  _check_alphabet(task)
  sample = jax.jit(task.sample, static_argnums=(1, 2))
  keys = jax.random.split(jax.random.key(0), 4)
  draw = lambda held_out: [jax.tree.map(np.asarray, sample(key, num, held_out)) for key in keys]
  training, held_out = draw(False), draw(True)
  for problems in (*training, *held_out):
    _check_prompts(task, problems, num)
  # What is hidden tells problems apart too: a prompt alone may be of several.
  whole = lambda draws: [_lines(problems) for problems in draws]
  check_split(whole(training), whole(held_out))
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
  _check_columns(task, problems, num, {}, allowed={'tasks', 'solutions'})
  prompts, lengths = problems['prompts'], problems['prompt_lengths']
  inside = np.arange(task.prompt_columns)[None] < lengths[:, None]
  fine = (lengths >= 1) & (inside == _is_character(task, prompts)).all(axis=1)
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
  return same_replies(cut(reply), cut(other))


def same_replies(reply, other) -> jax.Array:
  """Whether two trees are equal, numbers up to rounding."""
  pairs = jax.tree.map(lambda x, y: jnp.all(jnp.abs(1.0 * x - y) < 1e-5), reply, other)
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
