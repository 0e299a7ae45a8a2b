"""Any world of turns whose actions also say what will be seen behind them: `GT:AH` -> `e:BH` -> `:BH` -> ...

The first tokens of a turn are the action of the inner world, and the rest is what the policy thinks that it
will answer. So the text of an episode holds a simulation of the world, and it is held against what came: the
share of turns that were foreseen is paid. The answer is read as ever.
"""

import jax
import jax.numpy as jnp

from rlx.envs import text
from rlx.envs.turns import Reply, TurnTask, said
from rlx.errors import at_least
from rlx.types import Batch


def foreseen(*, task, action_tokens: int, bonus: float) -> TurnTask:
  """Episodes of another world whose actions foresee its observations.

  Args:
    task: makes the world; in a config a section with its `name`. Its observations are all of one length.
    action_tokens: of each of its actions, without an end token.
    bonus: what it is worth to foresee every turn. Each is paid what it adds to the share of turns so far.
  Returns:
    A world whose turns are of `action_tokens + observation_columns` tokens; `Reply.info` has `foreseen`, the
    share of the episode's turns so far.
  """
  at_least(1, action_tokens=action_tokens)
  inner: TurnTask = task()
  columns = action_tokens + inner.observation_columns

  def start(problem: Batch):
    return {'inner': inner.start(problem), 'turns': jnp.int32(0), 'foreseen': jnp.int32(0)}

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    word = said(action, length, columns + 1)
    done, thought = word[:action_tokens], word[action_tokens:columns]
    reply = inner.act(state['inner'], done, jnp.minimum(length, action_tokens), key)
    there = jnp.arange(inner.observation_columns) < reply.length
    as_it_came = jnp.all(thought == jnp.where(there, reply.observation, text.PAD_ID))
    right = as_it_came & (word[columns] == text.PAD_ID) & reply.understood
    after = {
        'inner': reply.state, 'turns': state['turns'] + 1, 'foreseen': state['foreseen'] + right
    }
    share = after['foreseen'] / after['turns']
    gain = share - state['foreseen'] / jnp.maximum(state['turns'], 1)
    info = {**reply.info, 'foreseen': share.astype(jnp.float32)}
    return reply._replace(state=after, reward=reply.reward + bonus * gain, info=info)

  def expert(state):
    action, _ = inner.expert(state['inner'])
    done = action[:action_tokens]
    reply = inner.act(state['inner'], done, jnp.int32(action_tokens), jax.random.key(0))
    both = jnp.concatenate([done, reply.observation]).astype(jnp.int32)
    return jnp.pad(both, (0, 1), constant_values=text.EOS_ID), jnp.int32(columns + 1)

  return TurnTask(
      alphabet=inner.alphabet, prompt_columns=inner.prompt_columns, answer_columns=columns + 1,
      sample=inner.sample, observation_columns=inner.observation_columns, start=start, act=act, expert=expert,
      expert_return=inner.expert_return + bonus,
  )
