"""A world with lessons whose user corrects: `____>a` -> `u` -> `xb` -> `y` -> ..., for `x` was wanted.

Behind a reply that was not the one that the user wanted the next observation begins with that one, if the
user cares to say so. What it corrects can be read off the episode in hindsight, and would have been a lesson.
"""

from collections.abc import Callable
import dataclasses

import jax
import jax.numpy as jnp

from rlx.envs.turns import Reply, compact
from rlx.envs.worlds.playbook import LessonTask
from rlx.errors import between
from rlx.types import Batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectedTask(LessonTask):
  """A world of lessons with a user who corrects.

  Attributes:
    corrections_of: `batch -> [B, keys] int32`, the value that each key should have had, as far as the user
      said so in the episode; -1 elsewhere.
  """

  corrections_of: Callable[[Batch], jax.Array]


def corrected(*, task, says: float) -> CorrectedTask:
  """Episodes of a world of lessons, whose actions are of one token, with corrections.

  Args:
    task: makes the world, such as `playbook`; in a config a section with its `name`. What its expert would
      have done is what its user wants.
    says: in [0, 1], how likely the user corrects a reply that is not wanted; from any other nothing is heard.
  """
  between(0, 1, says=says)
  inner: LessonTask = task()

  def act(state, action: jax.Array, length: jax.Array, key: jax.Array) -> Reply:
    act_key, says_key = jax.random.split(key)
    reply = inner.act(state, action, length, act_key)
    wanted = inner.expert(state)[0][0]
    wrong = reply.understood & (action[0] != wanted) & jax.random.bernoulli(says_key, says)
    there = jnp.arange(inner.observation_columns) < reply.length
    observation, told = compact(
        jnp.concatenate([wanted[None], reply.observation]), jnp.concatenate([wrong[None], there])
    )
    return reply._replace(observation=observation, length=told)

  def corrections_of(batch: Batch) -> jax.Array:
    tokens, said = batch['tokens'], batch['action_mask']
    heard = batch['valid'] & ~said & (batch['turns'] >= 0)
    behind = lambda x, by: jnp.pad(x[:, by:], ((0, 0), (0, by)))
    wrong = said
    for by in range(1, inner.observation_columns + 2):  # one token more than there is else
      wrong = wrong & behind(heard, by)
    instead = {'tokens': jnp.where(wrong, behind(tokens, 1), tokens), 'action_mask': wrong}
    keys, values = inner.pairs_of(instead)
    rows, num_keys = jnp.arange(tokens.shape[0])[:, None], inner.sizes[0]
    none = jnp.full((tokens.shape[0], num_keys), -1, jnp.int32)
    return none.at[rows, jnp.where(keys >= 0, keys, num_keys)].set(values, mode='drop')

  fields = {field.name: getattr(inner, field.name) for field in dataclasses.fields(LessonTask)}
  return CorrectedTask(**{
      **fields, 'act': act, 'observation_columns': inner.observation_columns + 1,
      'corrections_of': corrections_of,
  })
