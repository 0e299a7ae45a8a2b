"""TacSL's AACD: PPO by touch, whose critic has been the critic of somebody who saw everything.

    stage 1:  π_T(s), V(s) by PPO
    stage 2:  L = L_PPO(π(o), V(s)) + c KL(π_T(· | s) || π(· | o))

s is the privileged state, o what can be felt. In both stages the critic sees s. In the second it begins as
what the first one left and is trained on, so that from the first update on it tells a new policy which of its
actions were good; the paper's algorithm is this alone, c = 0. With c > 0 the policy is also drawn towards the
teacher, who is held as it was, in the states that the policy itself visits. Who sees what is said by the
networks (`models.views.sees`). The first stage is `ppo` as it is, in which `policy` is the name of a role
that the teacher has (`names`).

Source: Akinola et al., 2024, https://arxiv.org/abs/2408.06506, section IV-B and algorithm 3; the term of the
teacher is ours, after their online distillation (algorithm 2).
"""

import dataclasses

from rlx.losses.distillation import teacher_kl
from rlx.models.networks import Policy
from rlx.types import Algorithm, Batch, Key, Models


def tacsl(parent: Algorithm, policy: Policy, teacher: Policy, *, teacher_coef: float) -> Algorithm:
  """`ppo` that is drawn towards a teacher; trains what its parent trains, and holds `teacher`.

  Args:
    parent: `ppo`, whose observations hold what each of the networks sees; its value sees the state, and
      begins as the teacher's where the stage before hands it on.
    policy: π, of the parent; sees what will be there when it is used.
    teacher: π_T, sees the state.
    teacher_coef: c; 0 is the paper's AACD.
  """

  def loss(models: Models, batch: Batch, key: Key):
    loss, metrics = parent.loss(models, batch, key)
    divergence = teacher_kl(
        policy, models['policy'], teacher, models['teacher'], batch['observations'], key
    ).mean()
    return loss + teacher_coef * divergence, {**metrics, 'kl/teacher': divergence}

  return dataclasses.replace(parent, loss=loss)
