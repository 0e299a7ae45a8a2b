"""INPO: self-play by comparisons of the policy's own answers, towards the Nash policy of the preferences.

    L = mean over pairs of (h_t - 1/(2 η))²,    h_t = (τ/η) h + (1 - τ/η) h'

h is the margin of log-ratios to the reference, h' that to the policy of the last round, whose answers the
pairs are. It is DPO's frame with the loss `preference.inpo` and one model more. At τ = η it is IPO around the
reference alone, and needs no reward that explains the preferences, which may go in circles.

Source: Zhang et al., 2024, https://arxiv.org/abs/2407.00617. Rounds are those of `following`, around it:
`copies: {'last': 'policy'}`.
"""

import dataclasses
import functools

from rlx.algorithms.dpo import dpo
from rlx.engine.speaker import Speaker
from rlx.losses import comparisons, preference
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def inpo(
    rollout: Rollout, policy: Speaker, reference: Speaker, last: Speaker, *, eta: float, tau: float
) -> Algorithm:
  """Iterative Nash policy optimisation.

  Args:
    rollout: yields pairs of answers of `last`, as for `dpo`.
    policy: its parameters are trained.
    reference: what holds it: `models['reference']`.
    last: the policy of the last round: `models['last']`.
    eta: η, as for `preference.inpo`.
    tau: τ, as for `preference.inpo`.
  """
  parent = dpo(rollout, policy, reference, loss=functools.partial(preference.inpo, eta=eta, tau=tau))

  def advantage(models: Models, batch: Batch, key: Key) -> Batch:
    batch = parent.advantage(models, batch, key)
    before = comparisons.summed(last.score(models['last'], batch)[0], batch['action_mask'])
    of_pairs = {'chosen': before[0::2], 'rejected': before[1::2]}
    both = {f'pair_{side}_before': comparisons.both(x, x) for side, x in of_pairs.items()}
    return {**batch, **both}

  return dataclasses.replace(parent, advantage=advantage)
