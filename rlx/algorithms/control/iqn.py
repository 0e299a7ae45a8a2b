"""IQN: the distribution of the return of each action, as a network that gives its quantile at any level.

    y_j = r + γ (1 - terminated) Z̄_{τ'_j}(s', argmax_a Q̄(s', a)),   τ_i, τ'_j ~ U(0, 1), drawn for each row
    L = mean w Σ_i mean_j |τ_i - 1(y_j < Z_{τ_i}(s, a))| ℓ_κ(y_j - Z_{τ_i}(s, a)) / κ

Where QR-DQN learns N numbers at levels that are fixed, here levels are drawn anew in each update. Rows of
prioritised and n-step replay as in `dqn.py`; the priority is L, at levels of its own.

Source: Dabney et al., 2018, https://arxiv.org/abs/1806.06923, eqs. 2 and 3. Q̄ is the mean at the midpoints of
equal steps, of the lagging network as in QR-DQN (the authors draw levels there, too).
"""

import jax
import jax.numpy as jnp

from rlx.algorithms.control.dqn import q_learning
from rlx.algorithms.control.qr_dqn import quantile_huber
from rlx.errors import at_least
from rlx.models.critics import ImplicitPolicy
from rlx.models.networks import picked
from rlx.rollout.control.replay import discounts
from rlx.types import Algorithm, Batch, Key, Models, Rollout


def iqn(
    rollout: Rollout, policy: ImplicitPolicy, *, num_levels: int, num_target_levels: int, discount: float,
    huber_delta: float, target_period: int, target_rate: float = 1.0,
) -> Algorithm:
  """Implicit quantile networks; trains `policy`, and `slow['target']` copies it now and then.

  Args:
    rollout: yields transitions.
    policy: `greedy_on_implicit_quantiles`.
    num_levels: N, levels of each row that learn (the paper: 8).
    num_target_levels: N', levels of each row that are learnt from (the paper: 8).
    discount: γ per step.
    huber_delta: κ (the paper: 1).
    target_period: updates between two copies.
    target_rate: of what is copied; with a period of 1 and a small rate the target follows smoothly (Polyak).
  Raises:
    ValueError: a number of levels is not positive.
  """
  at_least(1, num_levels=num_levels, num_target_levels=num_target_levels)

  def judge(models: Models, batch: Batch, key: Key) -> tuple[jax.Array, jax.Array, jax.Array]:
    seen, following = batch['observations'], batch['next_observations']
    own_key, target_key = jax.random.split(key)
    levels = lambda key, num: jax.random.uniform(key, (len(batch['rewards']), num))
    best = jnp.argmax(policy.values(models['target'], following), axis=-1)
    behind = picked(policy.at(models['target'], following, levels(target_key, num_target_levels)), best)
    targets = batch['rewards'][:, None] + discounts(batch, discount)[:, None] * behind
    own = levels(own_key, num_levels)
    quantiles = picked(policy.at(models['policy'], seen, own), batch['actions'])
    errors = quantile_huber(quantiles, jax.lax.stop_gradient(targets), own, delta=huber_delta)
    return errors, errors, quantiles.mean(axis=-1)

  return q_learning(rollout, judge, target_period=target_period, target_rate=target_rate)
