"""What a policy is worth, judged from a data set alone: off-policy evaluation, and a gate made of it.

`fitted_q` evaluates any policy with an ensemble of critics that is trained for it; `accepts` says whether one
policy is better than another by more than the ensemble doubts it.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from rlx.data import transitions as datasets
from rlx.losses.value import lower_confidence_bound
from rlx.models.networks import Network
from rlx.types import Batch, Key

Act = Callable[[jax.Array, Key], jax.Array]  # (observations [B, ...], key) -> actions [B, ...]


def fitted_q(
    dataset: Batch, act: Act, critic: Network, key: Key, *, discount: float, num_updates: int,
    batch_size: int, learning_rate: float, target_rate: float,
) -> jax.Array:
  """Fitted Q evaluation: the value of a policy at the starts of the episodes of a data set.

      y = r + γ (1 - terminated) Q̄_i(s', a'),  a' ~ π(· | s'),   L = Σ_i mean (Q_i(s, a) - y_i)²

  Each member of the ensemble has its own targets, so that their spread says how little the data determine.
  Pure: it can be put under `jit`, and `vmap` over what `act` closes over.

  Args:
    dataset: transitions, the steps of an episode one behind the other.
    act: the policy that is judged.
    critic: an ensemble of Q(s, a), made anew.
    key: of its parameters, the draws and the policy.
    discount: γ per step.
    num_updates: of Adam.
    batch_size: rows of an update.
    learning_rate: of Adam.
    target_rate: share of the critic that its target takes on after each update.
  Returns:
    [num] float32, the mean of Q_i(s_0, π(s_0)) over the starts, of each member.
  Source: Le et al., 2019, https://arxiv.org/abs/1903.08738, algorithm 3; with lagging targets in the place of
    a new regression for each iteration.
  """
  init_key, steps_key, start_key = jax.random.split(key, 3)
  optimizer = optax.adam(learning_rate)
  params = critic.init(init_key)
  num = dataset['rewards'].shape[0]

  def loss(params, target, rows, key):
    following = act(rows['next_observations'], key)
    bootstrap = critic.apply(target, rows['next_observations'], following)
    bootstrap = jnp.where(rows['terminated'][None], 0, bootstrap)
    values = critic.apply(params, rows['observations'], rows['actions'])
    return jnp.square(values - rows['rewards'][None] - discount * bootstrap).mean(axis=1).sum()

  def update(carry, key):
    params, target, opt_state = carry
    draw_key, act_key = jax.random.split(key)
    places = jax.random.randint(draw_key, (batch_size,), 0, num)
    rows = {name: dataset[name][places] for name in datasets.COLUMNS}
    slopes = jax.grad(loss)(params, target, rows, act_key)
    updates, opt_state = optimizer.update(slopes, opt_state)
    params = optax.apply_updates(params, updates)
    return (params, optax.incremental_update(params, target, target_rate), opt_state), None

  carry = (params, params, optimizer.init(params))
  (params, _, _), _ = jax.lax.scan(update, carry, jax.random.split(steps_key, num_updates))
  observations, starts = dataset['observations'], datasets.episode_starts(dataset)
  values = critic.apply(params, observations, act(observations, start_key))
  return jnp.sum(jnp.where(starts[None], values, 0), axis=1) / starts.sum()


def accepts(new_values: jax.Array, old_values: jax.Array, *, pessimism: float) -> jax.Array:
  """[] bool: whether a new policy is better than the old one, as far as the data can tell.

  Args:
    new_values: [num] `fitted_q` of the new policy.
    old_values: [num] of the old one, with the same key: the members are compared one by one.
    pessimism: standard deviations of the gains that have to lie above 0; 0 asks for the mean alone.
  """
  return lower_confidence_bound(new_values - old_values, pessimism=pessimism) > 0
