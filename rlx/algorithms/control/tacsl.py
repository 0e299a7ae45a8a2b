"""TacSL's AACD: PPO by touch, whose critic has been the critic of somebody who saw everything.

    stage 1:  π_T(s), V(s) by PPO                  (`teaching`)
    stage 2:  L = L_PPO(π(o), V(s)) + c KL(π_T(· | s) || π(· | o))

s is the privileged state, o what can be felt. In both stages the critic sees s. In the second it begins as
what the first one left and is trained on, so that from the first update on it tells a new policy which of its
actions were good; the paper's algorithm is this alone, c = 0. With c > 0 the policy is also drawn towards the
teacher, who is held as it was, in the states that the policy itself visits. Who sees what is said by the
networks (`models.views.sees`).

Source: Akinola et al., 2024, https://arxiv.org/abs/2408.06506, section IV-B and algorithm 3; the term of the
teacher is ours, after their online distillation (algorithm 2).
"""

import dataclasses

from rlx.algorithms.control.ppo import ppo
from rlx.envs.control.environment import Environment
from rlx.losses.distillation import teacher_kl
from rlx.models.networks import Network, Policy
from rlx.rollout.control.unroll import unroll
from rlx.types import Algorithm, Batch, Key, Models, Rollout, StatefulRollout, World


def teacher_unroll(env: Environment, teacher: Policy, *, num_envs: int, num_steps: int) -> StatefulRollout:
  """`unroll` in which `models['teacher']` acts; see there."""
  base = unroll(env, teacher, num_envs=num_envs, num_steps=num_steps)

  def draw(models: Models, world: World, key: Key) -> tuple[Batch, World]:
    return base.draw(_acted_by_teacher(models), world, key)

  return dataclasses.replace(base, draw=draw)


def teaching(
    rollout: Rollout,
    teacher: Policy,
    value: Network,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    discount: float,
    lambda_: float,
) -> Algorithm:
  """`ppo` of `models['teacher']` and `models['value']`; rows are those of `teacher_unroll`."""
  base = ppo(
      rollout, teacher, value, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, discount=discount, lambda_=lambda_,
  )
  return dataclasses.replace(
      base, loss=lambda models, batch, key: base.loss(_acted_by_teacher(models), batch, key)
  )


def tacsl(
    rollout: Rollout,
    policy: Policy,
    value: Network,
    teacher: Policy,
    *,
    clip_low: float,
    clip_high: float,
    entropy_coef: float,
    value_coef: float,
    value_clip: float,
    discount: float,
    lambda_: float,
    teacher_coef: float,
) -> Algorithm:
  """`ppo` that is drawn towards a teacher; trains `policy` and `value`, and holds `teacher`.

  Args:
    rollout: as for `ppo`; whose observations hold what each of the networks sees.
    policy: π, sees what will be there when it is used.
    value: V, sees the state; it begins as the teacher's where the stage before hands it on.
    teacher: π_T, sees the state.
    clip_low: as are the next six, of `ppo`.
    clip_high: see there.
    entropy_coef: see there.
    value_coef: see there.
    value_clip: see there.
    discount: see there.
    lambda_: see there.
    teacher_coef: c; 0 is the paper's AACD.
  """
  base = ppo(
      rollout, policy, value, clip_low=clip_low, clip_high=clip_high, entropy_coef=entropy_coef,
      value_coef=value_coef, value_clip=value_clip, discount=discount, lambda_=lambda_,
  )

  def loss(models: Models, batch: Batch, key: Key):
    loss, metrics = base.loss(models, batch, key)
    divergence = teacher_kl(
        policy, models['policy'], teacher, models['teacher'], batch['observations'], key
    ).mean()
    return loss + teacher_coef * divergence, {**metrics, 'kl/teacher': divergence}

  return dataclasses.replace(base, loss=loss)


def _acted_by_teacher(models: Models) -> Models:
  return {**models, 'policy': models['teacher']}
