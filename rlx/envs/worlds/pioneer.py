"""A pioneer answers a question, and an observer who has read that answer does: `ab3` -> 52 | `ab3` 52 -> 54.

Any text task makes the questions. With `shared` both get what both answers are worth, so the pioneer is also
paid for what its answer does for the observer.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.seats import SUCCESS, SeatReply, SeatTask, told
from rlx.envs.text import Task
from rlx.envs.turns import said
from rlx.errors import between
from rlx.types import Batch


def pioneer(*, task, shared: float) -> SeatTask:
  """Episodes of two answers to a problem of a text task.

  Args:
    task: makes the text task; in a config a section with its `name`. It verifies from its own columns.
    shared: in [0, 1], how much of what the other's answer is worth a seat gets on top of its own.
  Returns:
    The world. Besides `success`, of the pioneer's answer, episodes tell `observed`, of the observer's.
  """
  between(0, 1, shared=shared)
  inner: Task = task()
  columns = inner.answer_columns

  def sample(key: jax.Array, num: int, held_out: bool) -> Batch:
    problems = inner.sample(key, num, held_out)
    twice = {name: jnp.stack([problems[name]] * 2, axis=1) for name in ('prompts', 'prompt_lengths')}
    return {**problems, **twice}

  def start(problem: Batch):
    own = {name: x for name, x in problem.items() if name not in ('prompts', 'prompt_lengths')}
    return {'problem': own, 'first': jnp.float32(0), 'read': jnp.bool_(False)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> SeatReply:
    del key
    completion = jnp.where(jnp.arange(action.shape[0]) < length, action, text.PAD_ID)
    problem = jax.tree.map(lambda x: x[None], state['problem'])
    worth = inner.verify(problem, completion[None])[0]
    word, last = jnp.maximum(said(action, length, columns), text.PAD_ID), state['read']
    first = jnp.where(last, state['first'], worth)
    own = jnp.stack([first, worth])
    heard, _ = told(word, jnp.array([False, True]))
    return SeatReply(
        state={**state, 'first': first, 'read': jnp.bool_(True)}, observations=heard,
        lengths=jnp.where(jnp.array([False, True]), jnp.sum(word != text.PAD_ID), 0),
        rewards=jnp.where(last, own + shared * own[::-1], 0.0), ended=last, understood=jnp.bool_(True),
        info={SUCCESS: first, 'observed': jnp.where(last, worth, 0.0)},
    )

  return SeatTask(
      alphabet=inner.alphabet, prompt_columns=inner.prompt_columns, answer_columns=columns, sample=sample,
      seats=('pioneer', 'observer'), order=(0, 1), observation_columns=columns, start=start, act=act,
  )
