"""A portfolio of assets whose prices swing about a trend; changing it costs.

The logarithm of each price is a trend plus an autoregressive deviation x, and positions are shares of wealth,
negative for short ones:

    x' = φ x + σ ε,   reward = log(1 + w·(exp(μ + x' - x) - 1) - c ‖w - w_old‖₁)

So the sum of rewards is the logarithm of the wealth. Holding earns the trend; who sees x knows more.
Source: the problem in small of Zhang et al., 2025, https://arxiv.org/abs/2508.02292.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rlx.envs.control import drawing
from rlx.envs.control.environment import Continuous, Environment, Timestep, timestep, with_time_limit
from rlx.types import Key


class _Market(NamedTuple):
  deviations: jax.Array  # [A] x
  weights: jax.Array  # [A] w
  wealth: jax.Array  # [] logarithm, 0 at first


def trading(
    *, max_steps: int, num_assets: int, persistence: float, volatility: float, trend: float, cost: float
) -> Environment:
  """Observations [deviations in their standard deviation, positions]; actions are positions x `num_assets`.

  `log_wealth` is the sum of rewards. Wealth does not go below a hundredth of what it was before a step. The
  returns behind a score were measured with 1 asset, `persistence=0.9`, `volatility=0.02`, `trend=0.0005`,
  `cost=0.001` in 250 steps.

  Args:
    max_steps: after which an episode is cut off.
    num_assets: A; each may take up to 1 / A of the wealth, long or short.
    persistence: φ in [0, 1).
    volatility: σ, of a step.
    trend: μ, of the logarithm of prices in a step.
    cost: c, share of what is bought or sold.
  Raises:
    ValueError: `num_assets` is not positive, `persistence` is not in [0, 1), or `volatility` is not positive.
  """
  if num_assets < 1 or not 0 <= persistence < 1 or volatility <= 0:
    raise ValueError(
        f'num_assets={num_assets}, persistence={persistence}, volatility={volatility}: at least 1, in '
        '[0, 1), above 0'
    )
  spread = volatility / (1 - persistence**2) ** 0.5

  def observe(state: _Market):
    return jnp.concatenate([state.deviations / spread, state.weights * num_assets])

  def reset(key: Key):
    zeros = jnp.zeros(num_assets)
    state = _Market(spread * jax.random.normal(key, (num_assets,)), zeros, jnp.zeros(()))
    return state, observe(state)

  def step(state: _Market, action: jax.Array, key: Key) -> Timestep:
    weights = jnp.clip(action, -1, 1) / num_assets
    deviations = persistence * state.deviations + volatility * jax.random.normal(key, (num_assets,))
    gains = weights * jnp.expm1(trend + deviations - state.deviations)
    paid = cost * jnp.abs(weights - state.weights).sum()
    reward = jnp.log(jnp.maximum(1 + gains.sum() - paid, 0.01))
    state = _Market(deviations, weights, state.wealth + reward)
    return timestep(state, observe(state), reward, log_wealth=state.wealth)

  def draw(state: _Market) -> np.ndarray:
    """Each price's deviation, at its right what is held of it; last the logarithm of the wealth."""
    each = np.stack([state.deviations / (3 * spread), state.weights * num_assets], axis=-1).reshape(-1)
    colors = (drawing.GREY, drawing.BLUE) * num_assets + (drawing.GOLD,)
    return drawing.bars([*each, state.wealth], colors=colors)

  env = Environment(
      reset=reset, step=step, observation_shape=(2 * num_assets,), actions=Continuous(num_assets),
      random_return=-0.17 / 250 * max_steps, expert_return=0.79 / 250 * max_steps, draw=draw,
  )
  return with_time_limit(env, max_steps)
