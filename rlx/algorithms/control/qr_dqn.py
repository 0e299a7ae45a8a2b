"""QR-DQN: the distribution of the return of each action, as the places of N equally likely values.

    Q(s, a) = mean_i θ_i(s, a),   y_j = r + γ (1 - terminated) θ̄_j(s', argmax_a Q̄(s', a))
    L = mean w Σ_i mean_j |τ_i - 1(y_j < θ_i)| ℓ_κ(y_j - θ_i) / κ,   τ_i = (2 i - 1) / (2 N)

ℓ_κ is Huber's loss. Rows of prioritised and n-step replay as in `dqn.py`; the priority is L.

Source: Dabney et al., 2017, https://arxiv.org/abs/1710.10044, eqs. 9, 10 and algorithm 1; the division by κ
is of the later IQN, https://arxiv.org/abs/1806.06923, and makes no difference at κ = 1.
"""

import jax
import jax.numpy as jnp
import optax

from rlx.algorithms.control.dqn import q_learning
from rlx.models.critics import midpoints
from rlx.models.networks import GreedyPolicy, picked
from rlx.rollout.control.replay import discounts
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def qr_dqn(
    rollout: Rollout, policy: GreedyPolicy, *, discount: float, huber_delta: float, target_period: int,
    target_rate: float = 1.0,
) -> Algorithm:
  """Quantile regression deep Q-learning; trains `policy`, and `slow['target']` copies it now and then.

  Args:
    rollout: yields transitions.
    policy: `greedy_on_quantiles`.
    discount: γ per step.
    huber_delta: κ (the paper: 1).
    target_period: updates between two copies.
    target_rate: of what is copied; with a period of 1 and a small rate the target follows smoothly (Polyak).
  """

  def judge(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, jax.Array, jax.Array]:
    del key
    following = batch['next_observations']
    best = jnp.argmax(policy.values(models['target'], following), axis=-1)
    behind = picked(policy.outputs(models['target'], following), best)
    targets = batch['rewards'][:, None] + discounts(batch, discount)[:, None] * behind
    quantiles = picked(policy.outputs(models['policy'], batch['observations']), batch['actions'])
    levels = midpoints(quantiles.shape[-1])
    errors = quantile_huber(quantiles, jax.lax.stop_gradient(targets), levels, delta=huber_delta)
    return errors, errors, policy.values(models['policy'], batch['observations'])

  return q_learning(rollout, judge, target_period=target_period, target_rate=target_rate)


def quantile_huber(
    quantiles: jax.Array, targets: jax.Array, levels: jax.Array, *, delta: float
) -> jax.Array:
  """Σ_i mean_j |τ_i - 1(y_j < θ_i)| ℓ_κ(y_j - θ_i) / κ: [...].

  Args:
    quantiles: θ [..., N].
    targets: y [..., M].
    levels: τ, [N] or [..., N].
    delta: κ.
  """
  errors = targets[..., None, :] - quantiles[..., None]
  below = jax.lax.stop_gradient((errors < 0).astype(jnp.float32))
  asymmetry = jnp.abs(jnp.broadcast_to(levels, quantiles.shape)[..., None] - below)
  return jnp.sum(jnp.mean(asymmetry * optax.losses.huber_loss(errors, delta=delta) / delta, axis=-1), axis=-1)
