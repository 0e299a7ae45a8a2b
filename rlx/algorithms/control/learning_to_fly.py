"""Learning to Fly: TD3 whose critic knows more than its policy, and whose penalties grow.

    y and the losses are TD3's; the critic sees the true state, the policy noisy sensors and its last actions
    c_k = c (k_0)^(1 - min(k / K, 1))

At train step k each cost of the reward is c_k: it begins at the share k_0 of itself, where staying in the air
is all that counts, and has grown to c at step K. Rewards are made anew from the stored transitions, so that
old ones count by today's costs. Who sees what is said by the networks (`models.views.sees`).

Source: Eschmann et al., 2023, https://arxiv.org/abs/2311.13081, sections III-C and III-D; that the costs grow
by the same factor in each step is our reading.
"""

import dataclasses

import jax.numpy as jnp

from rlx.controllers.memory import with_memory
from rlx.envs.control.quadrotor import hover_reward
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout


def learning_to_fly(
    parent: Algorithm, *, position_cost: float, angle_cost: float, velocity_cost: float, action_cost: float,
    initial_share: float, curriculum_steps: int,
) -> Algorithm:
  """TD3 on a quadrotor with costs that grow; trains what its parent trains.

  Args:
    parent: `td3`, on transitions of `envs.control.quadrotor`; its policy sees the sensors, its critic the
      true state.
    position_cost: as are the next three, of `hover_reward`, in the end.
    angle_cost: see there.
    velocity_cost: see there.
    action_cost: see there.
    initial_share: k_0, of the costs in the beginning, in (0, 1]; 1 is no curriculum.
    curriculum_steps: K, train steps until they are whole.
  Raises:
    ValueError: `initial_share` is not in (0, 1], or `curriculum_steps` is not positive.
  """
  if not 0 < initial_share <= 1 or curriculum_steps < 1:
    raise ValueError(
        f'initial_share={initial_share}, curriculum_steps={curriculum_steps}: in (0, 1], and at least 1'
    )
  costs = dict(
      position_cost=position_cost, angle_cost=angle_cost, velocity_cost=velocity_cost, action_cost=action_cost
  )

  def reward(models: Models, batch: Batch, key: Key) -> Batch:
    del models, key
    now = {name: cost * batch['curriculum/share'] for name, cost in costs.items()}
    return {**batch, 'rewards': hover_reward(batch['next_observations'], batch['actions'], **now)}

  rollout = _with_share(parent.rollout, initial_share, curriculum_steps)
  return dataclasses.replace(parent, rollout=rollout, reward=reward)


def _with_share(rollout: Rollout, initial: float, num_steps: int) -> StatefulRollout:
  """The rollout with a column `curriculum/share`, and a count of the train steps."""

  def annotate(count, batch: Batch) -> Batch:
    share = initial ** (1 - jnp.minimum(count / num_steps, 1))
    return {**batch, 'curriculum/share': jnp.broadcast_to(share, batch['rewards'].shape)}

  return with_memory(
      rollout, 'curriculum', begin=lambda key: jnp.int32(0), annotate=annotate,
      observe=lambda count, batch: count + 1,
  )
