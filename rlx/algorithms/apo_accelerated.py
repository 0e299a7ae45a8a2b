"""APO, accelerated: rounds of preference optimisation, with Nesterov's extrapolation between them.

    π̂_{t+1} = argmin of the loss around π_t,    π_{t+1} ∝ π̂_{t+1} (π̂_{t+1} / π̂_t)^α

Iterative DPO is a proximal point method: the reference of a round is the policy of the last one. Here the
reference goes on in the direction of the last round. With α = 0 this is iterative DPO (`following`), to the
bit. Extrapolation is of parameters: of a log-linear policy that is the formula, of a network it stands for
it.
Anchored preference optimisation (`preference.apo_zero`) is another method with the same letters.

Source: He et al., 2024, https://arxiv.org/abs/2410.06293. The optimizer goes on from π̂_{t+1}, not from
π_{t+1}: only references and samples are set ahead, and the minimum is the same.
"""

import dataclasses

import jax

from rlx import tracking
from rlx.errors import at_least, between
from rlx.types import Algorithm, Models


def apo_accelerated(parent: Algorithm, *, momentum: float, period: int) -> Algorithm:
  """A method with a reference, whose `reference` is set ahead after each round; `slow` holds `last` too.

  Args:
    parent: what learns in a round, such as `dpo`; its rollout may sample from `reference`, which is π_t.
    momentum: α in [0, 1).
    period: of a round, in optimizer updates, at least 1.
  """
  between(0, 1, momentum=momentum)
  at_least(1, period=period)
  ahead = tracking.extrapolated('reference', of='policy', last='last', momentum=momentum, period=period)

  def track(slow: Models, params: Models, update: jax.Array) -> Models:
    return ahead(parent.track(slow, params, update), params, update)

  return dataclasses.replace(parent, track=track)
