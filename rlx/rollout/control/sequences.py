"""A policy that decides seldom, and what it did as single steps."""

import dataclasses

from rlx.envs.control.environment import Environment
from rlx.envs.control.wrappers import chunked
from rlx.models.sequence import Sequence, paced
from rlx.rollout.control.replay import replay
from rlx.types import Batch, Key, Models, StatefulRollout, World


def sequences(
    env: Environment, policy: Sequence, *, length: int, num_envs: int, num_steps: int, capacity: int,
    warmup_steps: int, batch_size: int,
) -> StatefulRollout:
  """`replay` of single steps, of a policy that looks at every `length`th observation alone.

  Args:
    env: one environment.
    policy: decides ahead.
    length: steps between two decisions.
    num_envs: as in `replay`, and so are those that follow.
    num_steps: of each environment a train step, whether they are decisions or not.
    capacity: as in `replay`.
    warmup_steps: as in `replay`.
    batch_size: as in `replay`.
  """
  (size,) = env.observation_shape
  inner = replay(
      chunked(inner=lambda: env, chunk=length), paced(policy, env), num_envs=num_envs, num_steps=num_steps,
      capacity=capacity, warmup_steps=warmup_steps, batch_size=batch_size,
  )

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    batch, world = inner.draw(models, world, key)
    seen = {name: batch[name][:, :size] for name in ('observations', 'next_observations')}
    return {**batch, **seen}, world

  return dataclasses.replace(inner, draw=draw)
