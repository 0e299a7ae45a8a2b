"""Any text task, with several tries: an answer that is wrong is told so, and may be given again.

The reward is that of the last attempt, and with `bonus` also what it is better than the first one; with
`early` those before it are paid as well. What the episode tells besides is whether the first attempt was
right (`first`), so that the gain of the second can be read.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.text import Task
from rlx.envs.turns import SUCCESS, Reply, TurnTask, one_turn
from rlx.errors import at_least
from rlx.types import Batch

_AGAIN = '~'


def attempts(*, task, num_attempts: int, stop_when_right: bool, early: float, bonus: float) -> TurnTask:
  """Episodes of attempts at a problem.

  Args:
    task: makes the text task; in a config a section with its `name`.
    num_attempts: in an episode, at least 1.
    stop_when_right: whether a right attempt ends the episode. Where it does not, all attempts are made, and
      the policy is not told which were right.
    early: times the verdict of an attempt that is not the last is what it is paid; with 0 the last alone is.
    bonus: times (last - first verdict) is added to the last reward, as SCoRe's second stage does.
  Raises:
    ValueError: the alphabet of the task has the sign that asks again.
  """
  at_least(1, num_attempts=num_attempts)
  inner: Task = task()
  if _AGAIN in inner.alphabet:
    raise ValueError(f'the alphabet of the task has {_AGAIN!r}, which asks for another attempt')
  alphabet = inner.alphabet + _AGAIN  # behind the others, so that tokens of the task stay what they are
  again = text.characters(_AGAIN, alphabet)
  single = one_turn(inner)

  def start(problem: Batch):
    return {'problem': problem, 'made': jnp.int32(0), 'first': jnp.float32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    # A sign that is none of the task's letters makes an answer wrong.
    reply = single.act(state['problem'], action, length, key)
    made = state['made'] + 1
    verdict = reply.reward
    first = jnp.where(made == 1, verdict, state['first'])
    ended = made >= num_attempts
    if stop_when_right:
      ended |= verdict == 1
    reward = jnp.where(ended, verdict + bonus * (verdict - first), early * verdict)
    info = {SUCCESS: (verdict == 1).astype(jnp.float32), 'first': first, 'gain': verdict - first}
    return Reply(
        {**state, 'made': made, 'first': first}, again, jnp.int32(1), reward, ended,
        jnp.bool_(True), info,
    )

  return TurnTask(
      alphabet=alphabet, prompt_columns=inner.prompt_columns, answer_columns=inner.answer_columns,
      sample=inner.sample, observation_columns=1, start=start, act=act,
      expert=lambda state: single.expert(state['problem']),
      expert_return=1.0 if stop_when_right else 1.0 + early * (num_attempts - 1),
  )
