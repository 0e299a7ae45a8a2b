"""Cal-QL: conservative Q-learning that stops pushing where the critic is below what the data earned.

    L_Q = L_Q(SAC) + c · Σ_i mean [ log ∫ exp max(Q_i(s, a), V^μ(s)) da - Q_i(s, a_data) ]

V^μ(s) is the return-to-go of the state in the data, so that values keep the scale of real returns and
learning online does not begin by unlearning. The bound is for actions of the policy, as in the authors' code;
uniform actions are pushed down as in CQL. Changes of CQL: one `max`.

Source: Nakamoto et al., 2023, https://arxiv.org/abs/2303.05479, eq. 5.1.
"""

import jax
import jax.numpy as jnp

from rlx.algorithms.control.cql import cql
from rlx.models.networks import Network, Policy
from rlx.types import Algorithm, Batch


def cal_ql(
    parent: Algorithm, policy: Policy, critic: Network, *, conservatism: float, num_actions: int
) -> Algorithm:
  """Calibrated Q-learning; as `cql`, with a batch that has `returns_to_go` [B].

  Args:
    parent: `sac`, on transitions with `returns_to_go` that are discounted as its values are; -inf in rows of
      which they are not known, which are then not bounded.
    policy: as in `cql`, and so are those that follow.
    critic: see there.
    conservatism: see there.
    num_actions: see there.
  """
  return cql(
      parent, policy, critic, conservatism=conservatism, num_actions=num_actions, floor=what_the_data_earned
  )


def what_the_data_earned(values: jax.Array, batch: Batch) -> jax.Array:
  """max(Q, V^μ): below the return-to-go [B] there is no slope. `values` are [N, M, B]."""
  return jnp.maximum(values, batch['returns_to_go'][None, None])
