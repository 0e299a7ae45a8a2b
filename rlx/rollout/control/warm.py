"""The beginning of an online stage: a store that the policy handed on fills before anything is learnt.

A critic that was trained on a fixed data set knows little of where its own policy goes. If the first online
batches are few transitions, or of somebody else, what was learnt is lost while the critic finds its feet. So
the policy acts for a while as it is, and the updates begin with what it saw.
"""

import dataclasses

import jax

from rlx.envs.control import stepping
from rlx.envs.control.environment import Environment
from rlx.models.networks import Policy
from rlx.rollout.control import replay
from rlx.types import Key, Models, StatefulRollout, World


def warm_replay(
    env: Environment, policy: Policy, *, num_envs: int, num_steps: int, capacity: int, warmup_steps: int,
    batch_size: int,
) -> StatefulRollout:
  """`replay.replay`, whose first `warmup_steps` transitions are of `models['policy']` and not random.

  Args:
    env: one environment.
    policy: how actions are drawn, in the warm-up too.
    num_envs: environments side by side.
    num_steps: steps of each of them a train step.
    capacity: transitions that are remembered; a multiple of `num_envs`.
    warmup_steps: transitions before the first update, with the models as the stage gets them; a multiple of
      `num_envs`.
    batch_size: rows that are drawn.
  Returns:
    A `rollout` as that of `replay.replay`.
  Raises:
    ValueError: a number is not positive, or does not divide.
  Source: Zhou et al., 2024, https://arxiv.org/abs/2412.07762, algorithm 1.
  """
  cold = replay.replay(
      env, policy, num_envs=num_envs, num_steps=num_steps, capacity=capacity, warmup_steps=warmup_steps,
      batch_size=batch_size,
  )

  def begin(key: Key) -> World:
    rows = jax.eval_shape(cold.begin, key)['store']['rows']
    return {'agents': stepping.begin(env, key, num_envs), 'store': replay.empty(rows, capacity)}

  def warm_up(models: Models, world: World, key: Key) -> World:
    act = lambda observations, key: policy.sample(models['policy'], observations, key)[0]
    return replay.collect(env, act, world['agents'], world['store'], key, warmup_steps // num_envs)

  return dataclasses.replace(cold, begin=begin, warm_up=warm_up)
