"""f-DVL: IQL whose values come from the dual of learning under an f-divergence to the data.

    L_V = mean [ (1 - λ) V(s) + λ f̄(u) ],   u = min_i Q̄_i(s, a) - V(s)

f̄ is the rising part of a conjugate: u + u²/4 (χ²) or u (total variation) above 0, and 0 below. As λ goes
to 1, V goes to the largest Q among the actions of the data. With e^u in its place this is XQL, which an error
of a hundred makes infinite; these are not worse than a square.

Source: Sikchi et al., 2023, https://arxiv.org/abs/2302.08560, section 5 and eq. 14.
"""

from rlx.algorithms.control.dual_rl import Conjugate
from rlx.algorithms.control.iql import in_sample
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Rollout


def fdvl(
    rollout: Rollout, policy: Policy, value: Network, critic: Network, *, discount: float,
    target_rate: float, rise: Conjugate, greed: float, sharpness: float, weight_max: float,
) -> Algorithm:
  """Dual V-learning; trains `policy`, `value` and `critic`, and `slow['target']` follows `critic`.

  Args:
    rollout: yields transitions.
    policy: a distribution of actions.
    value: V(s).
    critic: an ensemble of Q(s, a).
    discount: γ per step.
    target_rate: share of the critic that the target takes on after each update.
    rise: f̄: `dual_rl.chi_square_rise` or `dual_rl.total_variation_rise`.
    greed: λ, in (1/2, 1).
    sharpness: of the policy's weights, one over the units of returns.
    weight_max: the largest weight of an action.
  Raises:
    ValueError: `greed` is not in (1/2, 1): V would fall for ever, or rise for ever.
  """
  if not 0.5 < greed < 1:
    raise ValueError(f'greed={greed}: the values have a minimum for numbers above 0.5 and below 1')
  # (1 - λ) V is -(1 - λ) u but for Q, which is held.
  error = lambda u: greed * rise(u) - (1 - greed) * u
  return in_sample(
      rollout, policy, value, critic, error, discount=discount, target_rate=target_rate,
      sharpness=sharpness, weight_max=weight_max,
  )
