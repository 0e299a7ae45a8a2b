"""XQL: IQL with Gumbel regression, so that V is the soft maximum of Q over the actions of the data.

    L_V = mean (e^z - z - 1),   z = min((min_i Q̄_i(s, a) - V(s)) / β, z_max)

The policy is imitation with weights exp((Q - V) / β). Where an error of the critic is large against β, the
exponential is of that error: training is known to blow up (see `fdvl.py`), and z_max is there for that.

Source: Garg et al., 2023, https://arxiv.org/abs/2301.02328, eqs. 8 and 9 and section 4; the authors also
divide the loss by its largest exponential in the batch, which is left out.
"""

import functools

from rlx.algorithms.control.iql import in_sample
from rlx.losses.value import gumbel_error
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Rollout


def xql(
    rollout: Rollout, policy: Policy, value: Network, critic: Network, *, discount: float,
    target_rate: float, scale: float, exponent_max: float, sharpness: float, weight_max: float,
) -> Algorithm:
  """Extreme Q-learning; trains `policy`, `value` and `critic`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions.
    policy: a distribution of actions.
    value: V(s).
    critic: an ensemble of Q(s, a).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    scale: β, in the units of returns.
    exponent_max: z_max.
    sharpness: of the policy's weights, one over the units of returns; 1 / β in the paper.
    weight_max: the largest weight of an action.
  """
  error = functools.partial(gumbel_error, scale=scale, exponent_max=exponent_max)
  return in_sample(
      rollout, policy, value, critic, error, discount=discount, target_rate=target_rate,
      sharpness=sharpness, weight_max=weight_max,
  )
