"""A policy and a value that remember: a gated recurrent unit before two linear heads.

What is remembered is a carry [B, D] that the caller keeps and hands back; it is all zeros where an episode
begins. `scan` reads whole stretches of time at once, `step` one moment.

Source: Cho et al., 2014, https://arxiv.org/abs/1406.1078, in the form with the reset gate behind the product
with the carry.
"""

from collections.abc import Callable
import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from rlx.envs.control.environment import Discrete, Environment
from rlx.models import mlp
from rlx.types import Key


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Recurrent:
  """A distribution of discrete actions and a value, given all of an episode so far.

  Attributes:
    init: `key -> params`.
    size: D of the carry.
    step: `(params, carry [..., D], observations [..., O]) -> (carry, logits [..., A], values [...])`.
  """

  init: Callable[[Key], Any]
  size: int
  step: Callable[[Any, jax.Array, jax.Array], tuple[jax.Array, jax.Array, jax.Array]]

  def scan(self, params, carry: jax.Array, observations: jax.Array, starts: jax.Array):
    """Reads stretches of time.

    Args:
      params: of the network.
      carry: [B, D] before the first step.
      observations: [B, T, O].
      starts: [B, T] bool, True where an episode begins: what was before is forgotten.
    Returns:
      `(carries [B, T, D] after each step, logits [B, T, A], values [B, T])`.
    """

    def moment(carry, x):
      observation, start = x
      carry, logits, values = self.step(params, jnp.where(start[:, None], 0, carry), observation)
      return carry, (carry, logits, values)

    in_time = lambda x: jnp.swapaxes(x, 0, 1)
    _, outputs = jax.lax.scan(moment, carry, (in_time(observations), in_time(starts)))
    return jax.tree.map(in_time, outputs)


def gru(env: Environment, *, size: int) -> Recurrent:
  """A `Recurrent` for observations of one axis.

      r, z = σ(W x + U h + b),   n = tanh(W_n x + r (U_n h) + b_n),   h ← (1 - z) n + z h

  Args:
    env: what is controlled.
    size: D.
  Raises:
    ValueError: the actions are not discrete.
  """
  if not isinstance(env.actions, Discrete):
    raise ValueError(f'gru: actions are {env.actions}; it needs discrete ones')
  num_in = math.prod(env.observation_shape)
  linear = lambda key, sizes, scale: mlp.init(key, sizes, scale=1.0, final_scale=scale, layer_norm=False)
  apply = lambda params, x: mlp.apply(params, x, jnp.tanh)

  def init(key: Key):
    keys = jax.random.split(key, 4)
    return {
        'input': linear(keys[0], (num_in, 3 * size), 1.0),
        'recurrent': linear(keys[1], (size, 3 * size), 1.0),
        'policy': linear(keys[2], (size, env.actions.num), 0.01),
        'value': linear(keys[3], (size, 1), 1.0),
    }

  def step(params, carry, observations):
    carry = gated(apply(params['input'], observations), apply(params['recurrent'], carry), carry)
    return carry, apply(params['policy'], carry), apply(params['value'], carry)[..., 0]

  return Recurrent(init=init, size=size, step=step)


def gated(of_input: jax.Array, of_carry: jax.Array, carry: jax.Array) -> jax.Array:
  """h ← (1 - z) n + z h, [..., D]; r, z and n are made of [..., 3 D] of the input and of the carry."""
  of_input, of_carry = (jnp.split(x, 3, axis=-1) for x in (of_input, of_carry))
  reset, keep = (jax.nn.sigmoid(a + b) for a, b in zip(of_input[:2], of_carry[:2], strict=True))
  new = jnp.tanh(of_input[2] + reset * of_carry[2])
  return (1 - keep) * new + keep * carry
